! Writes and reads a file of MPI-IO from Fortran: per rank one open, 3 collective writes of 400 bytes, two syncs, one read of
! 400 bytes without a status, one request and its wait, and one close; and a sum of one integer over all ranks.
program calls
  use mpi
  implicit none
  integer :: error, rank, ranks, file, request, i, total
  integer :: numbers(100), status(MPI_STATUS_SIZE)
  integer(kind=MPI_OFFSET_KIND) :: place

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call MPI_File_open(MPI_COMM_WORLD, 'fortran.bin', MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, error)
  place = rank * 400
  do i = 1, 3
    numbers = rank * 10 + i
    call MPI_File_write_at_all(file, place, numbers, 100, MPI_INTEGER, status, error)
  end do
  ! Other ranks may have written this rank's part.
  call MPI_File_sync(file, error)
  call MPI_Barrier(MPI_COMM_WORLD, error)
  call MPI_File_sync(file, error)
  call MPI_File_read_at(file, place, numbers, 100, MPI_INTEGER, MPI_STATUS_IGNORE, error)
  if (any(numbers /= rank * 10 + 3)) call MPI_Abort(MPI_COMM_WORLD, 1, error)
  call MPI_File_iwrite_at(file, place, numbers, 10, MPI_INTEGER, request, error)
  call MPI_Wait(request, MPI_STATUS_IGNORE, error)
  call MPI_File_close(file, error)
  total = rank
  call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (total /= ranks * (ranks - 1) / 2) call MPI_Abort(MPI_COMM_WORLD, 2, error)
  call MPI_Finalize(error)
  if (rank == 0) print '(a,i0)', 'ranks ', ranks
end program
