"""The directory at one server with the DynamoDB API: which table belongs to which pipeline (B9).

`photon-pipelines` names, for each pipeline, the table that was made last at this store. The table's name has
the incarnation of the store in it; the register's members say which incarnation counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from photon.process.clock import Clock
from photon.registry.address import EndpointAddress, table_name
from photon.registry.errors import RegistryUnavailable
from photon.registry.stores.answers import ERRORS, error_code, no_reply
from photon.registry.stores.deadline import Deadline
from photon.registry.stores.dynamo import LEDGER_TABLE
from photon.registry.stores.dynamo_connection import DynamoConnection
from photon.registry.stores.endpoint import StoreSilent, new_incarnation

DIRECTORY = "photon-pipelines"
# infra/aws-registry.yaml has the same.
DIRECTORY_TABLE: Mapping[str, Any] = {
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in "ps"],
    "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}],
    "BillingMode": "PAY_PER_REQUEST",
}
TABLE_SECONDS = 120.0  # AWS takes about ten to make a table
_MISSING = "ResourceNotFoundException"
_THERE = "ResourceInUseException"
_OTHERWISE = "ConditionalCheckFailedException"


class DynamoDirectory:
    """See `photon.registry.stores.endpoint.Directory`."""

    def __init__(self, endpoint: EndpointAddress, clock: Clock, connection: DynamoConnection) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._connection = connection

    def table_of(self, pipeline: str) -> str | None:
        answer = self._call(
            "get_item", _MISSING, TableName=DIRECTORY, Key=_name(pipeline), ConsistentRead=True
        )
        return str(answer["Item"]["t"]["S"]) if answer is not None and "Item" in answer else None

    def ensure_table_of(self, pipeline: str) -> str:
        named = self.table_of(pipeline)
        if named is not None:
            return named
        table = table_name(pipeline, new_incarnation())
        self.replace_table_of(pipeline, None, table)
        return self.table_of(pipeline) or table

    def replace_table_of(self, pipeline: str, old: str | None, new: str) -> bool:
        """Make a table and name it for the pipeline, if `old` is what is named."""
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(p)"}
        if old is not None:
            named = {":named": {"S": old}}
            condition = {"ConditionExpression": "t = :named", "ExpressionAttributeValues": named}
        self.create(DIRECTORY, DIRECTORY_TABLE)
        self.create(new)
        item = {**_name(pipeline), "t": {"S": new}}
        if self._call("put_item", _OTHERWISE, TableName=DIRECTORY, Item=item, **condition) is not None:
            return True
        self.remove(new)  # nobody has heard of it
        return False

    def tables_of(self, pipeline: str) -> list[str]:
        """All tables of a pipeline that are there, also those that are named no more."""
        own = re.compile(re.escape(table_name(pipeline, "")) + "[0-9a-f]{16}")  # and of no pipeline-more
        names: list[str] = []
        page: dict[str, Any] = {}
        while True:
            answer = self._call("list_tables", **page)
            names += [name for name in answer["TableNames"] if own.fullmatch(name)]
            if answer.get("LastEvaluatedTableName") is None:
                return names
            page = {"ExclusiveStartTableName": answer["LastEvaluatedTableName"]}

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        return self._call("describe_table", _MISSING, TableName=table) is not None

    def create(self, table: str, definition: Mapping[str, Any] = LEDGER_TABLE) -> None:
        """Make a table, unless it is there, and wait until it can be used."""
        self._call("create_table", _THERE, TableName=table, **definition)
        deadline = Deadline(self._clock, TABLE_SECONDS)
        while self._call("describe_table", TableName=table)["Table"]["TableStatus"] != "ACTIVE":
            if not deadline.pause():
                raise RegistryUnavailable(
                    f"the table {table} at {self._endpoint} was not ready within {TABLE_SECONDS:.0f} s"
                )

    def remove(self, table: str) -> None:
        """Remove a table, if it is there."""
        self._call("delete_table", _MISSING, TableName=table)

    def _call(self, operation: str, unless: str | None = None, **request: Any) -> Any:
        """The answer; None if it is the error `unless`."""
        try:
            return getattr(self._connection(), operation)(**request)
        except ERRORS as error:
            if unless is not None and error_code(error) == unless:
                return None
            raise StoreSilent(self._endpoint, no_reply(error)) from error


def _name(pipeline: str) -> dict[str, Any]:
    return {"p": {"S": "ledgers"}, "s": {"S": pipeline}}
