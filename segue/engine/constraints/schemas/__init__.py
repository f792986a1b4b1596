"""JSON schemas compiled to Lark text: what the schema allows, and nothing that it forbids."""
