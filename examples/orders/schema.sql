-- Two programs may run this at once.
select pg_advisory_xact_lock(7360);

create table if not exists customers (
	id bigint primary key,
	region text not null
);

-- What customers were, for the check alone: the flow hears of changes through the slot. When a version was committed is
-- pg_xact_commit_timestamp(xmin), which needs track_commit_timestamp = on.
create table if not exists customer_versions (
	number bigint generated always as identity primary key,
	id bigint not null,
	region text -- null if the customer was deleted
);

create or replace function keep_version() returns trigger language plpgsql as $$
begin
	if tg_op = 'DELETE' then
		insert into customer_versions (id) values (old.id);
	else
		insert into customer_versions (id, region) values (new.id, new.region);
	end if;
	return null;
end $$;
create or replace trigger keep_version after insert or update or delete on customers
	for each row execute function keep_version();

do $$ begin
	create publication shop for table customers with (publish = 'insert, update, delete');
exception when duplicate_object then null;
end $$;

create table if not exists totals (
	start timestamptz not null,
	region text not null,
	orders bigint not null,
	cents bigint not null,
	primary key (start, region)
);

create table if not exists rejects (
	why text not null,
	record text not null
);
