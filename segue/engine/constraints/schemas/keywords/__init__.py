"""Keywords of JSON schema, and their negations, as branches of facts."""
