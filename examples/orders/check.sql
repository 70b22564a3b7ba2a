-- An order is late if it is older than the newest one before it in its partition, less the slack.
create temp table orders_of_topic as
	select *, time < max(time) over (partition by partition order by "offset" rows between unbounded preceding and 1 preceding)
		- current_setting('millrace.slack')::interval as late
	from records where id is not null;

create temp table versions as
	select number, id, region, pg_xact_commit_timestamp(xmin) as since from customer_versions;
create index on versions (id, since, number);

-- Of several versions that one transaction made, the last one counts.
create temp table wanted as
	select date_bin(current_setting('millrace.size')::interval, o.time, 'epoch') as start, coalesce(v.region, 'unknown') as region,
		count(*) as orders, sum(o.cents)::bigint as cents
	from orders_of_topic o left join lateral (
		select region from versions v where v.id = o.customer and v.since <= o.time order by v.since desc, v.number desc limit 1) v on true
	where o.late is not true
	group by 1, 2;

-- Totals come in the order of windows, so those before the last one are whole.
delete from wanted where start >= (select coalesce(max(start), '-infinity') from totals);

create temp table refused as
	select 'late' as why, id::text as record from orders_of_topic where late
	union all select 'cannot be read', value from records where id is null;

create temp table differences as
	with got as (select start, region, orders, cents from totals where start < (select max(start) from totals)),
	rejected as (select why, record from rejects)
	select 'total missing: ' || w::text as line from (select * from wanted except all select * from got) w
	union all select 'total wrong or twice: ' || g::text from (select * from got except all select * from wanted) g
	union all select 'not rejected: ' || r::text from (select * from refused except all select * from rejected) r
	union all select 'rejected: ' || r::text from (select * from rejected except all select * from refused) r;
