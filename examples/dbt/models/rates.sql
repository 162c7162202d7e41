-- Click-through rates by day and country. A run makes only those days again that have rows which the release
-- of the run before did not have. A release that shows something else first, such as a rebuild, says so in its
-- notes: then all days are made again (and a day that has no row any more needs dbt run --full-refresh).
{{ config(materialized="incremental", incremental_strategy="delete+insert", unique_key="day") }}
{% set before = "(SELECT max(release) FROM " ~ this ~ ")" %}

SELECT
    _event_date AS day,
    primary_country AS country,
    count(*) FILTER (kind = 'shown') AS shown,
    count(*) FILTER (kind = 'clicked') AS clicked,
    clicked / shown AS rate,
    (SELECT number FROM this_release) AS release
FROM joined
{% if is_incremental() %}
WHERE
    _event_date IN (
        SELECT _event_date FROM joined
        WHERE NOT EXISTS (
            SELECT 1 FROM (SELECT number, unnest(cut) AS place FROM releases)
            WHERE number = {{ before }} AND place.datacenter = _datacenter
                AND (CAST(_epoch AS BIGINT), _batch) <= (place.epoch, place.batch)
        )
    )
    OR EXISTS (
        SELECT 1 FROM releases
        WHERE number > {{ before }} AND number <= (SELECT number FROM this_release) AND len(notes) > 0
    )
{% endif %}
GROUP BY ALL
