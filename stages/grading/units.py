"""Units of measure and counted nouns behind a number."""

import re
from dataclasses import dataclass
from fractions import Fraction

from stages.grading.vocabulary import words


@dataclass(frozen=True, slots=True)
class Unit:
    """`dimensions` maps a base unit to its power (as sorted pairs); the unit is `factor` times their product.

    `count` multiplies the number before it (`6 million dollars`).
    """

    dimensions: tuple[tuple[str, int], ...]
    factor: Fraction = Fraction(1)
    count: Fraction = Fraction(1)


PERCENT = Unit((("percent", 1),))
DEGREE = Unit((("degree", 1),))
CURRENCIES = {"¤": "dollar", "€": "euro", "£": "pound sterling", "¥": "yen", "₹": "rupee"}

_SIZES = {  # name: (base, power of the base, factor)
    "m meter metre": ("metre", 1, Fraction(1)),
    "km kilometer kilometre": ("metre", 1, Fraction(1000)),
    "dm decimeter decimetre": ("metre", 1, Fraction(1, 10)),
    "cm centimeter centimetre": ("metre", 1, Fraction(1, 100)),
    "mm millimeter millimetre": ("metre", 1, Fraction(1, 1000)),
    "in inch inche": ("metre", 1, Fraction(254, 10000)),
    "ft foot feet": ("metre", 1, Fraction(3048, 10000)),
    "yd yard": ("metre", 1, Fraction(9144, 10000)),
    "mi mile": ("metre", 1, Fraction(1609344, 1000)),
    "L l liter litre": ("metre", 3, Fraction(1, 1000)),
    "mL ml milliliter millilitre": ("metre", 3, Fraction(1, 1000000)),
    "cc": ("metre", 3, Fraction(1, 1000000)),
    "s sec second": ("second", 1, Fraction(1)),
    "min minute": ("second", 1, Fraction(60)),
    "h hr hour": ("second", 1, Fraction(3600)),
    "day": ("second", 1, Fraction(86400)),
    "week wk": ("second", 1, Fraction(604800)),
    "month": ("month", 1, Fraction(1)),
    "year yr": ("month", 1, Fraction(12)),
    "g gram gm": ("gram", 1, Fraction(1)),
    "kg kilogram": ("gram", 1, Fraction(1000)),
    "mg milligram": ("gram", 1, Fraction(1, 1000)),
    "oz ounce": ("ounce", 1, Fraction(1)),
    "lb pound": ("ounce", 1, Fraction(16)),
    "ton tonne": ("ton", 1, Fraction(1)),
    "gal gallon": ("gallon", 1, Fraction(1)),
    "acre": ("acre", 1, Fraction(1)),
    "dollar usd": ("dollar", 1, Fraction(1)),
    "cent": ("dollar", 1, Fraction(1, 100)),
    "euro": ("euro", 1, Fraction(1)),
    "degree deg": ("degree", 1, Fraction(1)),
    "percent pct": ("percent", 1, Fraction(1)),
    "radian rad": ("radian", 1, Fraction(1)),
    "unit": ("unit", 1, Fraction(1)),
    "N newton": ("newton", 1, Fraction(1)),
    "J joule": ("joule", 1, Fraction(1)),
    "kJ": ("joule", 1, Fraction(1000)),
    "W watt": ("watt", 1, Fraction(1)),
    "kW": ("watt", 1, Fraction(1000)),
    "V volt": ("volt", 1, Fraction(1)),
    "A ampere amp": ("ampere", 1, Fraction(1)),
    "Ω ohm": ("ohm", 1, Fraction(1)),
    "Hz hertz": ("hertz", 1, Fraction(1)),
    "Pa pascal": ("pascal", 1, Fraction(1)),
    "K kelvin": ("kelvin", 1, Fraction(1)),
    "mol mole": ("mole", 1, Fraction(1)),
}
_KNOWN = {name: entry for names, entry in _SIZES.items() for name in names.split()}
_COMPOUND = {"mph": "mile per hour", "kph": "km per hour", "kmh": "km per hour", "kmph": "km per hour"}
_COMPOUND |= {"sqft": "square feet", "fps": "feet per second", "rpm": "rotations per minute"}
NUMBER_NAMES = {
    "hundred": 100,
    "thousand": 1_000,
    "million": 1_000_000,
    "billion": 1_000_000_000,
    "trillion": 1_000_000_000_000,
    "dozen": 12,
}
_LONE_LETTERS = frozenset("msghL")  # letters that count as units behind a space, as in `3 s`
_POWERS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
_RAISED = {"squared": 2, "cubed": 3}
_FILLERS = words("of the")
_ORDINALS = words("st nd rd th")
_IRREGULAR = words("people men women children mice geese teeth fish sheep loss profit increase decrease")
_NOT_NOUNS = words(
    """a an or and not is isnt are was were be if then else but except minus plus times over mod modulo
    maybe perhaps probably about around approximately approx roughly nearly almost than this that these
    those it its hope no none never nothing wrong incorrect false true correct right half halves third
    thirds quarter quarters fourth fourths fifth fifths equal equals to from between either neither both
    with without when where which because since so thus therefore hence root roots factorial unless
    undefined infinite infinity infinitely many solution solutions base more less fewer at most least or
    i we you he she they answer answers does is has as helps pi negative positive zero one two three
    four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy eighty
    ninety tens hundreds thousands millions billions trillions dozens score gross doubled halved excluded
    exceeds fails for all any every am pm divided multiplied cos sin tan log"""
)
_FRACTIONAL = re.compile(
    r".*(?:fth|sixth|seventh|eighth|ninth|tenth|eleventh|teenth|ieth|undredth|ousandth|illionth)s?"
)
_PIECE = re.compile(r"[A-Za-zµΩ]+|°[CF]?|[0-9]+|[/^*·\-]|\S")


def parse_unit(phrase: str, quoted: bool) -> Unit | None:
    r"""The unit a phrase names, None if it names none.

    `quoted` marks words from `\text{...}`, where any noun may be counted; bare words must be known units or look
    like plural nouns, so that prose behind a number is not mistaken for a unit.
    """
    words = _PIECE.findall(phrase.replace(".", " ").replace("{", " ").replace("}", " "))
    words = [piece for word in words for piece in _COMPOUND.get(word.lower(), word).split()]
    if not words or len(words) > 10 or not _is_noun_phrase([word for word in words if word[0].isalpha()], quoted):
        return None
    return _combine(words)


def _is_noun_phrase(words: list[str], quoted: bool) -> bool:
    unknown = [word for word in words if lookup(word) is None and not _is_connective(word)]
    if any(word.lower() in _NOT_NOUNS or _FRACTIONAL.fullmatch(word.lower()) for word in unknown):
        return False
    if quoted:
        return len(unknown) <= 4 and not any(len(word) == 1 for word in unknown)
    if unknown and (len(unknown) > 2 or len(words) > 4 or not _is_plural(unknown[-1])):
        return False
    return not any(len(word) == 1 and word not in _LONE_LETTERS for word in words)


def _is_connective(word: str) -> bool:
    lower = word.lower()
    return (
        lower in _POWERS
        or lower in _RAISED
        or lower in _FILLERS
        or lower in _ORDINALS
        or lower in NUMBER_NAMES
        or lower == "per"
    )


def _is_plural(word: str) -> bool:
    return word.lower() in _IRREGULAR or (len(word) > 3 and word.endswith("s") and word.isalpha())


def lookup(word: str) -> tuple[str, int, Fraction] | None:
    """(base unit, power, factor) of a known unit."""
    for form in (word, word.removesuffix("s"), word.lower(), word.lower().removesuffix("s")):
        if form in _KNOWN and (len(form) > 1 or form == word):
            return _KNOWN[form]
    return None


def _combine(words: list[str]) -> Unit | None:
    """Multiplies out `square metres`, `m/s^2`, `miles per hour`, `cm 3`."""
    dimensions: dict[str, int] = {}
    factor, count, direction, ahead, last = Fraction(1), Fraction(1), 1, 1, None
    for word in words:
        lower = word.lower()
        if word in ("^", "*", "·", "-") or lower in _FILLERS or lower in _ORDINALS:
            continue
        if word == "/" or lower == "per":
            direction = -1
        elif lower in _POWERS:
            ahead = _POWERS[lower]
        elif lower in _RAISED or word in ("2", "3"):
            if last is None:
                return None
            extra = (_RAISED.get(lower) or int(word)) - 1
            base, power, size = last
            dimensions[base] = dimensions.get(base, 0) + power * extra
            factor *= size**extra
            last = None
        elif lower in NUMBER_NAMES:
            count *= NUMBER_NAMES[lower]
        elif word[0].isalpha() or word[0] == "°":
            base, power, size = lookup(word) or (_singular(lower), 1, Fraction(1))
            power, size = power * ahead * direction, size ** (ahead * direction)
            dimensions[base] = dimensions.get(base, 0) + power
            factor *= size
            last, ahead = (base, power, size), 1
        else:
            return None
    return Unit(tuple(sorted((base, power) for base, power in dimensions.items() if power)), factor, count)


def _singular(noun: str) -> str:
    if noun.endswith("ies") and len(noun) > 4:
        return noun[:-3] + "y"
    return noun.removesuffix("s") if len(noun) > 3 and not noun.endswith("ss") else noun
