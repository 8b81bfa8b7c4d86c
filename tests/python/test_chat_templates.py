"""Chat templates beside Jinja itself, set up as transformers sets it up."""

from __future__ import annotations

import json

import pytest
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

import pycandle

MESSAGES = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "  Hi there, “friend”\n"},
    {"role": "assistant", "content": "<think>\nwhy\n</think>\n\nHello!", "tool_calls": None},
    {"role": "user", "content": "What's 2 < 3 & 'x'?"},
]
TOOLS = [
    {"type": "function", "function": {"name": "add", "parameters": {"a": [1, 2.5, None, True], "ü": {}}}}
]
CALLS = [
    *MESSAGES,
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": "add", "arguments": {"a": 1, "b": "é"}}}],
    },
    {"role": "tool", "content": "3"},
    {"role": "tool", "content": "4"},
]


def jinja(source: str, **variables) -> str:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )

    def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False) -> str:
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def refuse(message):
        raise ValueError(message)

    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    return environment.from_string(source).render(**variables)


CHATML = """{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\n' + message.content | trim + '<|im_end|>' + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}"
    "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
    "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
    "{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
TOOLS_AND_THOUGHTS = """{%- set ns = namespace(last=0, calls=[]) %}
{%- macro shown(name, value='-', sep=': ') -%}
{{ name ~ sep ~ value }}
{%- endmacro %}
{%- if tools is defined and tools %}
# Tools
    {%- for tool in tools %}
{{ tool | tojson }}
{{ tool.function | tojson(indent=2) }}
    {%- endfor %}
{%- endif %}
{%- for message in messages[::-1] if message.role != 'tool' %}
    {%- set ns.last = loop.index %}
{%- endfor %}
{{ shown('count', ns.last) }} {{ shown('none') }} {{ shown('x', sep='=') }}
{% for message in messages %}
    {% if message.role == 'assistant' and message.tool_calls is not none and message.tool_calls is defined %}
        {%- for call in message.tool_calls %}{{ call.function.name }}({% for k, v in call.function.arguments.items() %}{{ k }}={{ v | tojson }}{{ ", " if not loop.last else "" }}{% endfor %})
        {% endfor %}
    {% elif '</think>' in message.content %}
{{ message.content.split('</think>')[-1].lstrip('\n') }}|{{ message.content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}
    {% elif message.content is string %}
{{ loop.index }}/{{ loop.length }} {{ loop.revindex0 }} {{ loop.previtem.role if loop.previtem is defined else 'first' }} {{ message.content | upper | length }}
    {% endif %}
    {% if loop.index == 6 %}{% break %}{% endif %}
{% else %}
nothing
{% endfor %}
{# a comment #}
{% set block %}in a {{ 'block' | capitalize }}{% endset %}
{{ block }} {{ [1, 2, 3] | map('string') | join('-') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }}
{{ {'a': 1, 'b': [true, none, 'x', 1.5]} }} {{ 7 // 2 }} {{ 7 / 2 }} {{ -7 % 3 }} {{ 2 ** 5 }} {{ 'a' * 3 }} {{ "it's" ~ 1.0 }}
{{ missing | default('d') }} {{ '' | default('e', true) }} {{ 'x' in ['x'] }} {{ 'y' not in {'y': 1} }} {{ messages | map(attribute='role') | unique | join(',') }}
{{ range(3) | list }} {{ 'abc'[::-1] }} {{ 'abc'[-2:] }} {{ 'a-b-c'.replace('-', '+', 1) }} {{ ('a', 'b') | last }} {{ 'one two'.title() }} {{ 3 is odd and not 4 is odd }}
{%- raw %} {{ raw }} {% endraw %}
{{ 'é\u00e9\\n' }}{{ 1 if false }}{{ messages[9] is defined }} {{ dict(a=1) | items | list | length }} {{ 'B,a' .split(',') | sort | first }}
"""


@pytest.mark.parametrize("source", [CHATML, LLAMA2, TOOLS_AND_THOUGHTS], ids=["chatml", "llama2", "tools"])
@pytest.mark.parametrize(
    "messages",
    [MESSAGES[:2], MESSAGES, MESSAGES[1:], CALLS, []],
    ids=["two", "four", "three", "tools", "none"],
)
def test_prompts_are_those_of_jinja(source, messages) -> None:
    variables = {"bos_token": "<s>", "eos_token": "</s>", "tools": TOOLS, "add_generation_prompt": True}
    try:
        expected = jinja(source, messages=messages, **variables)
    except Exception:
        with pytest.raises(pycandle.Error):
            pycandle.ChatTemplate(source).render(messages, **variables)
        return
    assert pycandle.ChatTemplate(source).render(messages, **variables) == expected


def test_a_configuration_gives_its_special_tokens(tmp_path) -> None:
    path = tmp_path / "tokenizer_config.json"
    named = [
        {"name": "default", "template": "{{ bos_token }}d"},
        {"name": "tool_use", "template": "{{ eos_token }}t"},
    ]
    path.write_text(
        json.dumps({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": named})
    )
    assert pycandle.ChatTemplate.from_config(path).render([]) == "<s>d"
    assert pycandle.ChatTemplate.from_config(path, "tool_use").render([]) == "</s>t"
    with pytest.raises(pycandle.Error, match="no chat template"):
        pycandle.ChatTemplate.from_config(path, "other")


WRONG = {
    "{% if x %}": "endif is missing",
    "{{ x": "no end",
    "{% include 'x' %}": "the tag include is not supported",
    "{{ x | shout }}": "the filter shout is not supported",
    "{{ 'a'.shout() }}": "shout of what is string is not supported",
    "{{ 1 is shouted }}": "the test shouted is not supported",
    "{{ 1 + 'a' }}": r"\+ of integer and string",
    "{{ raise_exception('no system role') }}": "no system role",
    "{{ 1 / 0 }}": "division by zero",
    "{% for i in range(1000000) %}{% endfor %}": "too long",
    "{% for i in range(90000) %}{% for j in range(90000) %}x{% endfor %}{% endfor %}": "does not come to an end",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}": "without end",
    "{{ " + "(" * 500 + "1" + ")" * 500 + " }}": "nested too deeply",
    "{{ 1" + " + 1" * 5000 + " }}": "nested too deeply",
    "{{ x.y.z }}": "z of what is undefined",
    "{% endfor %}": "was not|not supported|ends what nothing began",
}


@pytest.mark.parametrize("source", WRONG, ids=range(len(WRONG)))
def test_a_wrong_template_gives_one_clear_error(source) -> None:
    with pytest.raises(pycandle.Error, match=WRONG[source]):
        pycandle.ChatTemplate(source).render([], x={"y": None} if "z" not in source else {})
