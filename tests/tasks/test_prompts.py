"""Protocol strings are what was published, byte for byte, and user text passes through them untouched."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stages.tasks.prompts as module
from stages.tasks.prompts import PROMPTS, render, slots

FOLDER = Path(module.__file__).parent / "prompts"
PUBLISHED = {
    "alpaca_sft": "fbd4a4672e92a2ecb3a849a6417ce7be683dc02382edc11a9ce0d58a9ac9449e",
    "gsm8k_zero_shot": "66a9eb03833714e1227e054fbc0cdab2f97c4329ef5b6f901b35ffab4a327984",
    "mmlu_zero_shot": "ce1a453a4aa7aae36f56431af3d46d835ef01562220d8763096b3ca68e29f19d",
    "question_only": "bf085a6e12c9d0e23a9dd157df084f933b2ef021caba82def1494bfb84a723c9",
    "r1_zero": "56213732da87e12ace60a2b88a16df0af18280fb0563a957cbecc938a6a2ac0e",
    "zero_shot_system_prompt": "1b4854e31925e2823f701de2d7ac895297dbae563d03077a68713ef420075180",
}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_strings_are_the_published_ones(name):
    assert hashlib.sha256((FOLDER / f"{name}.prompt").read_bytes()).hexdigest() == PUBLISHED[name]
    assert hashlib.sha256(PROMPTS[name].encode()).hexdigest() == PUBLISHED[name]


def test_every_file_is_named_and_every_name_has_a_file():
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(PUBLISHED)
    assert set(PROMPTS) - set(PUBLISHED) == {"alpaca", "zero_shot"}


def test_a_document_is_the_alpaca_prompt_and_the_response():
    document = render("alpaca_sft", instruction="Add {response}.", response="Done.\n")
    assert document == render("alpaca", question="Add {response}.") + "Done.\n\n"


def test_a_benchmarks_question_stands_whole_in_either_template():
    """As the assignment nests them: the task's own prompt, then the system prompt or the Alpaca template around it."""
    asked = render("gsm8k_zero_shot", question="How many?")
    assert asked == "How many?\nAnswer:"
    assert render("zero_shot", question=asked) == render("zero_shot_system_prompt", instruction=asked)
    assert render("zero_shot", question=asked).endswith("# Query:\n```How many?\nAnswer:```\n\n# Answer:\n```\n")
    assert render("alpaca", question=asked).endswith("### Instruction:\nHow many?\nAnswer:\n\n### Response:\n")


def test_slots_of_every_prompt():
    assert {name: slots(name) for name in PROMPTS} == {
        "r1_zero": ["question"],
        "question_only": ["question"],
        "alpaca": ["question"],
        "zero_shot": ["question"],
        "gsm8k_zero_shot": ["question"],
        "alpaca_sft": ["instruction", "response"],
        "zero_shot_system_prompt": ["instruction"],
        "mmlu_zero_shot": ["subject", "question", "options[0]", "options[1]", "options[2]", "options[3]"],
    }


def test_r1_zero_ends_where_the_policy_goes_on():
    prompt = render("r1_zero", question="What is 1 + 1?")
    assert prompt.endswith("\nUser: What is 1 + 1?\nAssistant: <think>")
    assert prompt.startswith("A conversation between User and Assistant. ")


def test_numbered_slots_take_a_list():
    prompt = render("mmlu_zero_shot", subject="law", question="Who?", options=["{options[1]}", "b", "c", "d"])
    assert prompt.endswith("\nQuestion: Who?\nA. {options[1]}\nB. b\nC. c\nD. d\nAnswer:")


HOSTILE = st.lists(
    st.sampled_from(["{question}", "{answer}", "{response}", "{", "}", "{0}", "{}", "%s", r"\1", r"\g<0>", "\n", "é"])
    | st.text(max_size=5)
).map("".join)


@given(HOSTILE)
@settings(deadline=None)
def test_any_question_comes_through_untouched(question):
    assert render("question_only", question=question) == question
    before, after = PROMPTS["r1_zero"].split("{question}")
    assert render("r1_zero", question=question) == before + question + after


@given(HOSTILE, HOSTILE)
@settings(deadline=None)
def test_one_field_never_fills_the_slot_of_another(instruction, response):
    start, rest = PROMPTS["alpaca_sft"].split("{instruction}")
    middle, end = rest.split("{response}")
    expected = start + instruction + middle + response + end
    assert render("alpaca_sft", instruction=instruction, response=response) == expected


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("r1_zero", {}, "'r1_zero' lacks question; its slots are question"),
        ("r1_zero", {"question": "a", "answer": "b"}, "'r1_zero' has no answer; its slots"),
        ("alpaca_sft", {"question": "a", "response": "b"}, "lacks instruction and has no question"),
        (
            "mmlu_zero_shot",
            {"subject": "a", "question": "b", "options": ["c", "d"]},
            r"lacks options\[2\], options\[3\]",
        ),
        ("r2_zero", {"question": "a"}, "unknown prompt 'r2_zero'; known: alpaca, alpaca_sft, "),
    ],
)
def test_fields_must_be_those_of_the_prompt(name, fields, message):
    with pytest.raises(ValueError, match=message):
        render(name, **fields)
