"""Random constraints against judges that know nothing of ours: what they allow, and what may be drawn."""
