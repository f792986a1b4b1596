from pathlib import Path

from segue.engine.constraints.schemas.table import markdown

DOCUMENT = Path(__file__).parents[3] / "docs" / "constraints.md"


def test_the_table_of_keywords_is_what_the_code_does() -> None:
    text = DOCUMENT.read_text()
    begin = text.index("<!-- keywords")
    begin = text.index("\n", begin) + 1
    assert text[begin : text.index("<!-- end of keywords")] == markdown()
