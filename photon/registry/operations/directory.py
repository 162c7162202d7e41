"""The directory of one endpoint: which table belongs to which pipeline; making and removing tables (B9).

`photon-pipelines` names, for each pipeline, the table that was made last at this endpoint. Its name has the
incarnation of the store in it; the register's members say which incarnation counts.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from photon.clock import Clock
from photon.ledger.address import EndpointAddress, table_name
from photon.ledger.errors import RegistryUnavailable
from photon.registry.consensus.acceptor import NoReply
from photon.registry.dynamodb.answers import UNREADABLE, denied, no_reply
from photon.registry.dynamodb.wire import CredentialsMissing
from photon.registry.endpoints.deadline import Deadline
from photon.registry.open import connection

DIRECTORY = "photon-pipelines"
ADMIN_TIMEOUT = timedelta(seconds=10)  # tables are made more slowly than items
# Of the directory and of the tables that it names; infra/aws-registry.yaml has the same.
TABLE_DEFINITION: dict[str, Any] = {
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in "ps"],
    "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}],
    "BillingMode": "PAY_PER_REQUEST",
}
_TABLE_MISSING = "ResourceNotFoundException"
TABLE_SECONDS = 120.0  # AWS takes about ten to make a table

T = TypeVar("T")


class EndpointSilent(RegistryUnavailable):
    """The endpoint gave no answer that we can use: `reply`, which does not name it, says why."""

    def __init__(self, endpoint: EndpointAddress, reply: NoReply) -> None:
        super().__init__(f"{endpoint} {reply.problem} ({reply.reason})")
        self.reply = reply


def new_incarnation() -> str:
    """A random name for a store that is empty: 16 hex digits."""
    return secrets.token_hex(8)


class Directory:
    """The directory at one endpoint. Methods raise EndpointSilent, which names it, if it does not answer."""

    def __init__(self, endpoint: EndpointAddress, clock: Clock) -> None:
        self.endpoint = endpoint
        self._clock = clock
        self._client: Any = None

    def table_of(self, pipeline: str) -> str | None:
        """The table that is named for a pipeline; None if there is none."""
        key = {"p": {"S": "pipeline"}, "s": {"S": pipeline}}

        def request(client: Any) -> str | None:
            item = client.get_item(TableName=DIRECTORY, Key=key, ConsistentRead=True).get("Item")
            return None if item is None else str(item["t"]["S"])

        return self._call(request, unless=_TABLE_MISSING)

    def ensure_table_of(self, pipeline: str) -> str:
        """The pipeline's table, made if there is none; of two who make one at once, that of the first."""
        named = self.table_of(pipeline)
        if named is not None:
            return named
        table = table_name(pipeline, new_incarnation())
        self.replace_table_of(pipeline, None, table)
        return self.table_of(pipeline) or table

    def replace_table_of(self, pipeline: str, old: str | None, new: str) -> bool:
        """Make a table and name it for the pipeline, if `old` is what is named.

        If another one is, remove the new table again: nobody has heard of it.
        """
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(p)"}
        if old is not None:
            named = {":named": {"S": old}}
            condition = {"ConditionExpression": "t = :named", "ExpressionAttributeValues": named}
        item = {"p": {"S": "pipeline"}, "s": {"S": pipeline}, "t": {"S": new}}
        self.create(DIRECTORY)
        self.create(new)
        answer = self._call(
            lambda client: client.put_item(TableName=DIRECTORY, Item=item, **condition),
            unless="ConditionalCheckFailedException",
        )
        if answer is None:
            self.remove(new)
        return answer is not None

    def tables_of(self, pipeline: str) -> list[str]:
        """All tables of a pipeline that are there, also those that are named no more."""
        own = re.compile(re.escape(table_name(pipeline, "")) + "[0-9a-f]{16}")  # and of no pipeline-more

        def request(client: Any) -> list[str]:
            names: list[str] = []
            page: dict[str, Any] = {}
            while True:
                answer = client.list_tables(**page)
                names += [name for name in answer["TableNames"] if own.fullmatch(name)]
                if answer.get("LastEvaluatedTableName") is None:
                    return names
                page = {"ExclusiveStartTableName": answer["LastEvaluatedTableName"]}

        return self._call(request) or []

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        there = self._call(lambda client: client.describe_table(TableName=table), unless=_TABLE_MISSING)
        return there is not None

    def create(self, table: str) -> None:
        """Make a table, unless it is there, and wait until it can be used."""
        self._call(
            lambda client: client.create_table(TableName=table, **TABLE_DEFINITION),
            unless="ResourceInUseException",
        )
        deadline = Deadline(self._clock, TABLE_SECONDS)
        while self._call(lambda c: c.describe_table(TableName=table)["Table"]["TableStatus"]) != "ACTIVE":
            if not deadline.pause():
                raise RegistryUnavailable(
                    f"the table {table} at {self.endpoint} was not ready within {TABLE_SECONDS:.0f} s"
                )

    def remove(self, table: str) -> None:
        """Remove a table, if it is there."""
        self._call(lambda c: c.delete_table(TableName=table), unless=_TABLE_MISSING)

    def _call(self, request: Callable[[Any], T], unless: str | None = None) -> T | None:
        """What `request` makes of the answer; None if the endpoint answers with the error `unless`."""
        try:
            if self._client is None:
                self._client = connection(self.endpoint, ADMIN_TIMEOUT, 1)()
            return request(self._client)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code", "") == unless:
                return None
            reply = no_reply(error.response)
            is_denied = reply.kind == "denied"
            raise EndpointSilent(self.endpoint, reply if is_denied else NoReply(str(error))) from error
        except CredentialsMissing as error:
            raise EndpointSilent(self.endpoint, denied(str(error))) from error
        except BotoCoreError as error:
            raise EndpointSilent(self.endpoint, NoReply(str(error))) from error
        except UNREADABLE as error:
            reply = NoReply(f"an answer that can't be read: {error!r}")
            raise EndpointSilent(self.endpoint, reply) from error
