"""The formats that are enforced, as patterns: written from the RFCs that JSON schema names."""

from collections.abc import Callable, Iterator
from functools import cache

from segue.engine.constraints.scalars.pattern import Pattern, read_pattern

# --- dates and times: RFC 3339 --------------------------------------------------------------------

_CENTURY_LEAP = "(?:[02468][048]|[13579][26])"
_LEAP_YEAR = f"(?:[0-9]{{2}}(?:0[48]|[2468][048]|[13579][26])|{_CENTURY_LEAP}00)"
_DATE = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|{_LEAP_YEAR}-02-29)"
)
_HOUR, _MINUTE = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
_FRACTION = r"(?:\.[0-9]+)?"
_OFFSET = rf"(?:[zZ]|[+\-]{_HOUR}:{_MINUTE})"
_TIME = f"{_HOUR}:{_MINUTE}:[0-5][0-9]{_FRACTION}{_OFFSET}"


def _leap_seconds() -> Iterator[str]:
    """The last second of a day in UTC, as clocks show it at offsets of whole and half hours."""
    yield f"23:59:60{_FRACTION}[zZ]"
    for hour in range(24):
        for minute, ahead in ((0, hour - 1), (30, hour)):
            shown = 59 - minute if minute == 0 else 29
            yield rf"{ahead % 24:02}:{shown:02}:60{_FRACTION}\+{hour:02}:{minute:02}"
            yield rf"{23 - hour:02}:{shown:02}:60{_FRACTION}\-{hour:02}:{minute:02}"


_ANY_TIME = f"(?:{_TIME}|{'|'.join(_leap_seconds())})"
_DURATION_TIME = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DURATION_DATE = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_DURATION = f"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|[0-9]+W)"

# --- addresses: RFC 1123, 2673, 4291, 5321 --------------------------------------------------------

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"(?:{_OCTET}\.){{3}}{_OCTET}"
_H16 = "[0-9a-fA-F]{1,4}"
_LS32 = f"(?:{_H16}:{_H16}|{_IPV4})"


def _ipv6() -> str:
    options = [f"(?:{_H16}:){{6}}{_LS32}", f"::(?:{_H16}:){{5}}{_LS32}"]
    for num_after in range(4, -1, -1):
        before = f"(?:(?:{_H16}:){{0,{4 - num_after}}}{_H16})?"
        options.append(f"{before}::(?:{_H16}:){{{num_after}}}{_LS32}")
    options.append(f"(?:(?:{_H16}:){{0,5}}{_H16})?::{_H16}")
    options.append(f"(?:(?:{_H16}:){{0,6}}{_H16})?::")
    return f"(?:{'|'.join(options)})"


_IPV6 = _ipv6()
_AN, _LDH = "[a-zA-Z0-9]", r"[a-zA-Z0-9\-]"


def _label(most: int) -> str:
    """Two hyphens at the third and fourth place are reserved, but in "xn--"."""
    long = rf"{_AN}{_LDH}(?:{_AN}{_LDH}|\-{_AN}){_LDH}{{0,{most - 5}}}{_AN}"
    coded = rf"[xX][nN]--{_LDH}{{0,{most - 5}}}{_AN}"
    return rf"(?:{_AN}(?:{_LDH}{{0,2}}{_AN})?|{long}|{coded})"


# 253 characters in all, counted by labels: few long ones, or more that are shorter.
_HOSTNAME = "|".join(
    rf"{_label(most)}(?:\.{_label(most)}){{0,{times - 1}}}"
    for times, most in ((3, 63), (8, 30), (36, 6))
)
_ATOM = r"[a-zA-Z0-9!#$%&'*+\-/=?^_`{|}~]+"
_QUOTED = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
_LITERAL = rf"\[(?:{_IPV4}|IPv6:{_IPV6})\]"
_EMAIL = rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_HOSTNAME}|{_LITERAL})"

# --- identifiers: RFC 3986, 4122, 6901 ------------------------------------------------------------

_HEX = "[0-9a-fA-F]"
_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_ESCAPED = f"%{_HEX}{{2}}"
_PLAIN = r"a-zA-Z0-9\-._~!$&'()*+,;="
_SEGMENT_CHAR = f"(?:[{_PLAIN}:@]|{_ESCAPED})"
_HOST = rf"(?:\[(?:{_IPV6}|[vV]{_HEX}+\.[{_PLAIN}:]+)\]|(?:[{_PLAIN}]|{_ESCAPED})*)"  # an IPv4 is a name, too
_AUTHORITY = f"(?:(?:[{_PLAIN}:]|{_ESCAPED})*@)?{_HOST}(?::[0-9]*)?"
_ABSOLUTE_OR_EMPTY = f"(?:/{_SEGMENT_CHAR}*)*"
_WITH_AUTHORITY = f"//{_AUTHORITY}{_ABSOLUTE_OR_EMPTY}"
_ABSOLUTE = f"/(?:{_SEGMENT_CHAR}+{_ABSOLUTE_OR_EMPTY})?"
_AFTER = f"(?:[?](?:{_SEGMENT_CHAR}|[/?])*)?(?:#(?:{_SEGMENT_CHAR}|[/?])*)?"
_HIERARCHY = f"(?:{_WITH_AUTHORITY}|{_ABSOLUTE}|{_SEGMENT_CHAR}+{_ABSOLUTE_OR_EMPTY}|)"
_URI = rf"[a-zA-Z][a-zA-Z0-9+\-.]*:{_HIERARCHY}{_AFTER}"
_NO_COLON = f"(?:[{_PLAIN}@]|{_ESCAPED})"
_RELATIVE = f"(?:{_WITH_AUTHORITY}|{_ABSOLUTE}|{_NO_COLON}+{_ABSOLUTE_OR_EMPTY}|){_AFTER}"
_POINTER = "(?:/(?:[^/~]|~[01])*)*"
_BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"


def _plain(source: str) -> Callable[[], Pattern]:
    return cache(lambda: read_pattern(f"^(?:{source})$"))


FORMATS: dict[str, Callable[[], Pattern]] = {
    "date-time": _plain(f"{_DATE}[tT]{_ANY_TIME}"),
    "date": _plain(_DATE),
    "time": _plain(_ANY_TIME),
    "duration": _plain(_DURATION),
    "email": _plain(_EMAIL),
    "hostname": _plain(_HOSTNAME),
    "ipv4": _plain(_IPV4),
    "ipv6": _plain(_IPV6),
    "uuid": _plain(_UUID),
    "uri": _plain(_URI),
    "uri-reference": _plain(f"{_URI}|{_RELATIVE}"),
    "json-pointer": _plain(_POINTER),
    "relative-json-pointer": _plain(f"(?:0|[1-9][0-9]*)(?:#|{_POINTER})"),
    "byte": _plain(_BASE64),
}
NUMBER_FORMATS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
UNCHECKED_FORMATS = frozenset({"float", "double", "password", "binary"})  # these allow everything
