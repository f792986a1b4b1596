"""What tests share: a served process, runners that misbehave, tiny models and how they are judged."""
