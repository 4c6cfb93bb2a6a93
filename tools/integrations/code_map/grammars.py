"""The supported languages: their grammars, and queries for definitions and uses."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # imported for types only: a grammar is loaded with the first file of its language
    from tree_sitter import Parser, Query


class Grammar(NamedTuple):
    module: str
    function: str
    """The function of the module that returns the language."""
    definitions: str
    """A query in which `@def` is a definition and `@name` its name."""
    uses: str
    """A query in which `@use` is a name that is called, imported or used as a type, and `@part` is the name of a
    member."""


_PYTHON_DEFINITIONS = """
(class_definition name: (identifier) @name) @def
(function_definition name: (identifier) @name) @def
(module (expression_statement (assignment left: (identifier) @name) @def))
"""
_PYTHON_USES = """
(call function: (identifier) @use)
(call function: (attribute attribute: (identifier) @part))
(type (identifier) @use)
(type (generic_type (identifier) @use))
(class_definition superclasses: (argument_list (identifier) @use))
(import_from_statement name: (dotted_name (identifier) @use))
(decorator (identifier) @use)
"""
_JAVASCRIPT_DEFINITIONS = """
(function_declaration name: (identifier) @name) @def
(generator_function_declaration name: (identifier) @name) @def
(class_declaration name: (_) @name) @def
(method_definition name: (property_identifier) @name) @def
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @def
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @def)))
"""
_JAVASCRIPT_USES = """
(call_expression function: (identifier) @use)
(call_expression function: (member_expression property: (property_identifier) @part))
(new_expression constructor: (identifier) @use)
(import_specifier name: (identifier) @use)
"""
_JSX_USES = """
(jsx_opening_element name: (identifier) @use)
(jsx_self_closing_element name: (identifier) @use)
"""
_TYPESCRIPT_USES = "(type_identifier) @use"
_TYPESCRIPT_DEFINITIONS = """
(abstract_class_declaration name: (_) @name) @def
(interface_declaration name: (_) @name) @def
(type_alias_declaration name: (_) @name) @def
(enum_declaration name: (_) @name) @def
(function_signature name: (identifier) @name) @def
"""
_GO_DEFINITIONS = """
(function_declaration name: (identifier) @name) @def
(method_declaration name: (field_identifier) @name) @def
(type_spec name: (type_identifier) @name) @def
"""
_GO_USES = """
(call_expression function: (identifier) @use)
(call_expression function: (selector_expression field: (field_identifier) @part))
(type_identifier) @use
"""
_RUST_DEFINITIONS = """
(function_item name: (identifier) @name) @def
(struct_item name: (type_identifier) @name) @def
(enum_item name: (type_identifier) @name) @def
(union_item name: (type_identifier) @name) @def
(trait_item name: (type_identifier) @name) @def
(type_item name: (type_identifier) @name) @def
(macro_definition name: (identifier) @name) @def
(const_item name: (identifier) @name) @def
"""
_RUST_USES = """
(call_expression function: (identifier) @use)
(call_expression function: (field_expression field: (field_identifier) @part))
(scoped_identifier name: (identifier) @use)
(use_list (identifier) @use)
(macro_invocation macro: (identifier) @use)
(type_identifier) @use
"""
_JAVA_DEFINITIONS = """
(class_declaration name: (identifier) @name) @def
(interface_declaration name: (identifier) @name) @def
(enum_declaration name: (identifier) @name) @def
(record_declaration name: (identifier) @name) @def
(method_declaration name: (identifier) @name) @def
"""

_JAVA_USES = """
(method_invocation name: (identifier) @part)
(type_identifier) @use
"""

_JAVASCRIPT = Grammar("tree_sitter_javascript", "language", _JAVASCRIPT_DEFINITIONS, _JAVASCRIPT_USES + _JSX_USES)
_TYPESCRIPT = Grammar(
    "tree_sitter_typescript",
    "language_typescript",
    _JAVASCRIPT_DEFINITIONS + _TYPESCRIPT_DEFINITIONS,
    _JAVASCRIPT_USES + _TYPESCRIPT_USES,
)
_TSX_USES = _JAVASCRIPT_USES + _TYPESCRIPT_USES + _JSX_USES
GRAMMARS: Mapping[str, Grammar] = {
    ".py": Grammar("tree_sitter_python", "language", _PYTHON_DEFINITIONS, _PYTHON_USES),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), _JAVASCRIPT),
    **dict.fromkeys((".ts", ".mts", ".cts"), _TYPESCRIPT),
    ".tsx": Grammar(
        "tree_sitter_typescript", "language_tsx", _JAVASCRIPT_DEFINITIONS + _TYPESCRIPT_DEFINITIONS, _TSX_USES
    ),
    ".go": Grammar("tree_sitter_go", "language", _GO_DEFINITIONS, _GO_USES),
    ".rs": Grammar("tree_sitter_rust", "language", _RUST_DEFINITIONS, _RUST_USES),
    ".java": Grammar("tree_sitter_java", "language", _JAVA_DEFINITIONS, _JAVA_USES),
}
"""The grammars by file extension."""


@cache
def parser_for(grammar: Grammar) -> "tuple[Parser, Query, Query]":
    """Return a language's parser and its queries for definitions and uses."""
    from tree_sitter import Language, Parser, Query  # noqa: PLC0415  # deferred: see above

    language = Language(getattr(import_module(grammar.module), grammar.function)())
    return Parser(language), Query(language, grammar.definitions), Query(language, grammar.uses)
