"""Text in, character spans out. Nothing in here knows LlamaIndex."""
