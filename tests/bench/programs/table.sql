-- A small database that writes, commits and reads: sqlite3 FILE ".read table.sql"
pragma journal_mode = wal;
create table samples (id integer primary key, label text, weight real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)
insert into samples select i, 'label ' || (i % 97), i * 0.5 from n;
create index by_label on samples (label);
update samples set weight = weight + 1 where id % 7 = 0;
select count(*), sum(weight) from samples where label = 'label 13';
pragma wal_checkpoint(truncate);
vacuum;
