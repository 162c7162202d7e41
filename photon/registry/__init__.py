"""The IdRegistry: who joined which event, over a DynamoDB-compatible conditional-write store."""
