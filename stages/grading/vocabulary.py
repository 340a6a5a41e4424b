"""The words of the grammar: which commands, signs and names mean the same thing."""


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_NAMES = words(
    """sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh coth arcsinh arccosh arctanh
    cis ln log lg exp sqrt cbrt abs floor ceil min max gcd lcm sgn"""
)
FUNCTION_ALIASES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "arctg": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "arsinh": "arcsinh",
    "arcosh": "arccosh",
    "artanh": "arctanh",
    "ctg": "cot",
    "tg": "tan",
    "cosec": "csc",
    "ceiling": "ceil",
}
SEVERAL_ARGUMENTS = words("min max gcd lcm")
INVERTIBLE = words("sin cos tan cot sinh cosh tanh")
GREEK_LETTERS = words(
    """alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi rho sigma tau upsilon phi chi psi omega
    Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega ell hbar"""
)
ACCENTS = {
    "vec": "vec",
    "overrightarrow": "vec",
    "hat": "hat",
    "widehat": "hat",
    "bar": "bar",
    "overline": "bar",
    "tilde": "tilde",
    "widetilde": "tilde",
    "dot": "dot",
    "underline": "underline",
}
TEXT_COMMANDS = words("text mbox hbox textnormal textrm textbf textit textsf texttt textup textsc textmd emph")
STYLE_COMMANDS = words("mathrm mathbf mathit mathsf mathtt boldsymbol bm operatorname mathop mathnormal")
ALPHABETS = words("mathbb mathcal mathscr mathfrak")

_OPERATOR_COMMANDS = {
    "*": "cdot times ast cdotp star",
    "/": "div slash",
    "≤": "le leq leqslant leqq",
    "≥": "ge geq geqslant geqq",
    "<": "lt",
    ">": "gt",
    "≠": "ne neq",
    "±": "pm",
    "∓": "mp",
    "|": "vert lvert rvert mid",
    "\\{": "lbrace",
    "\\}": "rbrace",
    "[": "lbrack",
    "]": "rbrack",
    "(": "lparen",
    ")": "rparen",
    "⟨": "langle",
    "⟩": "rangle",
    "⌊": "lfloor",
    "⌋": "rfloor",
    "⌈": "lceil",
    "⌉": "rceil",
    "∪": "cup bigcup",
    "∩": "cap bigcap",
    "∖": "setminus backslash smallsetminus",
    "∈": "in",
    "≈": "approx",
    "≡": "equiv",
    ":": "colon",
    "°": "degree",
    "'": "prime",
    "¤": "dollar",
    "€": "euro",
    "£": "pounds",
    "%": "percent",
    "and": "land wedge",
    "or": "lor vee",
}
OPERATORS = {name: sign for sign, names in _OPERATOR_COMMANDS.items() for name in names.split()}

_COMMAND_SPELLINGS = {
    "frac": "dfrac tfrac cfrac",
    "binom": "dbinom tbinom",
    "emptyset": "varnothing",
    "phi": "varphi",
    "epsilon": "varepsilon",
    "theta": "vartheta",
    "ldots": "dots cdots dotsc",
    "mathbb{R}": "reals R",
    "mathbb{C}": "C",
    "mathbb{N}": "N",
}
COMMAND_ALIASES = {name: command for command, names in _COMMAND_SPELLINGS.items() for name in names.split()}

SAME_SIGN = {
    "**": "^",
    "<=": "≤",
    ">=": "≥",
    "!=": "≠",
    "==": "=",
    "×": "*",
    "⩽": "≤",
    "⩾": "≥",
    "∘": "°",
    "º": "°",
    "˚": "°",
    "‖": "|",
    "〈": "⟨",
    "〉": "⟩",
    "\\%": "%",
    "\\&": "&",
    "\\$": "¤",
    "\\|": "|",
    "\\_": "_",
    "\\#": "#",
}
_GREEK_SIGNS = """
    α=alpha β=beta γ=gamma δ=delta ε=epsilon ζ=zeta η=eta θ=theta κ=kappa λ=lambda μ=mu ν=nu ξ=xi π=pi
    ρ=rho σ=sigma τ=tau υ=upsilon φ=phi χ=chi ψ=psi ω=omega Γ=Gamma Δ=Delta Θ=Theta Λ=Lambda Ξ=Xi Π=Pi
    Σ=Sigma Φ=Phi Ψ=Psi Ω=Omega ϕ=phi ϵ=epsilon
"""
SIGN_COMMANDS = {
    **dict(pair.split("=") for pair in _GREEK_SIGNS.split()),
    "√": "root",
    "∞": "infty",
    "∅": "emptyset",
    "ℝ": "mathbb{R}",
    "ℤ": "mathbb{Z}",
    "ℕ": "mathbb{N}",
    "ℚ": "mathbb{Q}",
    "ℂ": "mathbb{C}",
    "∠": "angle",
    "△": "triangle",
    "ℓ": "ell",
}

_SAFE_LETTERS = frozenset("abcdexyz")
_VOWELS = frozenset("aeiouAEIOU")


def reads_as_product(word: str) -> bool:
    """Whether a run of letters inside mathematics is a product of variables and not an English word."""
    if len(word) <= 2:
        return True
    return len(word) <= 6 and (not _VOWELS & set(word) or (len(word) <= 4 and set(word) <= _SAFE_LETTERS))
