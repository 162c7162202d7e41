"""One endpoint by the DynamoDB API: requests, answers, and servers on this machine.

Nothing here knows of other endpoints.
"""
