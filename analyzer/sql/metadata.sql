-- Metadata: calls that move no data, by purpose.
with calls as (
  select dur, ret,
    case
      when name in ('open', 'openat', 'creat', 'mkstemp', 'fopen', 'freopen', 'tmpfile', 'MPI_File_open', 'io_uring_openat',
        'io_uring_openat2') then 'open'
      when name in ('close', 'fclose', 'close_range', 'closefrom', 'MPI_File_close', 'io_uring_close') then 'close'
      when name in ('stat', 'lstat', 'fstat', 'fstatat', 'statx', 'access', 'faccessat', 'io_uring_statx') then 'stat'
      when name in ('opendir', 'fdopendir', 'readdir', 'closedir', 'scandir', 'getdents64') then 'list'
      when name in ('lseek', 'fseek', 'ftell', 'rewind', 'fgetpos', 'fsetpos') then 'seek'
      when name in ('rename', 'renameat', 'link', 'linkat', 'symlink', 'symlinkat', 'io_uring_renameat',
        'io_uring_linkat', 'io_uring_symlinkat') then 'rename'
      when name in ('unlink', 'unlinkat', 'remove', 'rmdir', 'io_uring_unlinkat') then 'delete'
      when name in ('mmap', 'munmap', 'mremap', 'madvise') then 'map'
      else 'other'
    end as "group"
  from events where layer not in ('app', 'hdf5', 'mpi') and class = 'metadata' and (file is null or file not like '<%')
)
select "group", count(*) as count, count(*) filter (where ret < 0) as failed, sum(dur) as time_ns
from calls group by "group" order by time_ns desc, "group";
