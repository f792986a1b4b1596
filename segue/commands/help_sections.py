"""The help of a command whose options are settings: under headings, its own options first."""

import click

from segue import config

# The first setting of each section; docs/settings.md has the same.
SECTIONS = {
    "models": "Models",
    "context_length": "The engine",
    "host": "The server",
    "defaults": "Sampling defaults",
    "api_keys": "Who may use it",
    "max_queue": "Queue and time",
    "max_body_bytes": "Bounds of a request",
    "log_level": "Logs and traces",
}


def _sections() -> dict[str, str]:
    """The section of each setting."""
    found, title = {}, ""
    for row in config.TABLE:
        title = SECTIONS.get(row.name, title)
        found[row.name] = title
    return found


class Sectioned(click.Command):
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        of_settings = _sections()
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                title = of_settings.get(param.name or "", "Options")
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
