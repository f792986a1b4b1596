"""How bytes are spelled in tokens: GPT-2's alphabet, and SentencePiece's "<0x0A>"."""

MARK = "▁"  # SentencePiece's space


def _alphabet() -> dict[int, str]:
    """GPT-2's: printable Latin-1 as itself, the others from U+0100 upwards."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {
        byte: chr(256 + i) for i, byte in enumerate(hidden)
    }


ALPHABET = _alphabet()
_BYTES = {ord(character): byte for byte, character in ALPHABET.items()}
_CHARACTERS = frozenset(ALPHABET.values())


def spell(text: str) -> str:
    """The bytes of a text in GPT-2's alphabet."""
    return text.encode().decode("latin-1").translate(ALPHABET)


def is_spelled(spelling: str) -> bool:
    """Whether all of it is of GPT-2's alphabet."""
    return _CHARACTERS.issuperset(spelling)


def read(spelling: str) -> bytes:
    """What is spelled in GPT-2's alphabet."""
    return spelling.translate(_BYTES).encode("latin-1")


def of_byte(byte: int) -> str:
    return f"<0x{byte:02X}>"
