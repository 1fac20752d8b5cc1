/* Makes calls of MPI of every kind that is recorded, checks their results, and writes the number and bytes of each to the
 * file counts.RANK, one line per function: name, calls, bytes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 512
#define KINDS 128
#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            MPI_Abort(MPI_COMM_WORLD, 1); \
        } \
    } while (0)

static struct { const char *name; long calls, bytes; } counts[KINDS];
static int rank, ranks;

static void count(const char *name, long bytes) {
    int i = 0;
    while (counts[i].name != NULL && strcmp(counts[i].name, name) != 0) i++;
    counts[i].name = name;
    counts[i].calls++;
    counts[i].bytes += bytes < 0 ? 0 : bytes;
}

/* A call of MPI that moves `bytes`; -1 if it moves none. */
#define CALL(bytes, function, ...) \
    do { \
        CHECK(function(__VA_ARGS__) == MPI_SUCCESS); \
        count(#function, bytes); \
    } while (0)

static int data[SIZE];

static void fill(void) {
    for (int i = 0; i < SIZE; i++) data[i] = rank * SIZE + i;
}

/* True if the data are those of a rank. */
static int is_of(int other) {
    for (int i = 0; i < SIZE; i++)
        if (data[i] != other * SIZE + i) return 0;
    return 1;
}

/* Makes all writes visible to all ranks. */
static void publish(MPI_File file) {
    CALL(-1, MPI_File_sync, file);
    CALL(-1, MPI_Barrier, MPI_COMM_WORLD);
    CALL(-1, MPI_File_sync, file);
}

static void read_and_write(void) {
    const int bytes = SIZE * sizeof(int);
    MPI_Offset mine = (MPI_Offset)rank * bytes, size;
    MPI_Status status;
    MPI_Request request, requests[4];
    MPI_File file;
    int got, flag = 0, index, indexes[4];

    CALL(-1, MPI_File_open, MPI_COMM_WORLD, "shared.bin", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    CALL(-1, MPI_File_set_size, file, 0);
    fill();
    for (int i = 0; i < 10; i++) CALL(bytes, MPI_File_write_at, file, mine, data, SIZE, MPI_INT, MPI_STATUS_IGNORE);
    CALL(bytes, MPI_File_write_at_all, file, mine, data, SIZE, MPI_INT, &status);
    publish(file);
    CALL(-1, MPI_File_get_size, file, &size);
    CHECK(size == (MPI_Offset)ranks * bytes);
    memset(data, 0, sizeof data);
    CALL(bytes, MPI_File_read_at_all, file, (MPI_Offset)((rank + 1) % ranks) * bytes, data, SIZE, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(is_of((rank + 1) % ranks));
    CALL(bytes, MPI_File_read_at, file, mine, data, SIZE, MPI_INT, &status);
    CHECK(is_of(rank) && MPI_Get_count(&status, MPI_INT, &got) == MPI_SUCCESS && got == SIZE);
    /* The end of the file, with and without a status. */
    CALL(40, MPI_File_read_at, file, (MPI_Offset)ranks * bytes - 40, data, SIZE, MPI_INT, MPI_STATUS_IGNORE);
    CALL(0, MPI_File_read_at, file, (MPI_Offset)ranks * bytes, data, SIZE, MPI_INT, &status);
    CHECK(MPI_Get_count(&status, MPI_INT, &got) == MPI_SUCCESS && got == 0);

    /* Requests that end in each kind of wait. */
    fill();
    CALL(bytes, MPI_File_iwrite_at, file, mine, data, SIZE, MPI_INT, &request);
    CALL(-1, MPI_Wait, &request, &status);
    CHECK(request == MPI_REQUEST_NULL);
    for (int i = 0; i < 4; i++) CALL(bytes / 4, MPI_File_iread_at, file, mine + i * bytes / 4, data + i * SIZE / 4, SIZE / 4, MPI_INT, &requests[i]);
    CALL(-1, MPI_Waitall, 4, requests, MPI_STATUSES_IGNORE);
    CHECK(is_of(rank));
    CALL(8, MPI_File_iread_at, file, mine, data, 2, MPI_INT, &requests[0]);
    requests[1] = MPI_REQUEST_NULL;
    CALL(-1, MPI_Waitany, 2, requests, &index, MPI_STATUS_IGNORE);
    CHECK(index == 0);
    CALL(8, MPI_File_iread_at, file, mine, data, 2, MPI_INT, &requests[0]);
    CALL(-1, MPI_Waitsome, 2, requests, &got, indexes, MPI_STATUSES_IGNORE);
    CHECK(got == 1 && indexes[0] == 0);
    CALL(8, MPI_File_iread_at, file, mine, data, 2, MPI_INT, &request);
    while (!flag) CHECK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    count("MPI_Test", -1);
    /* Messages end without an event. */
    CHECK(MPI_Isend(&rank, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &requests[0]) == MPI_SUCCESS);
    CHECK(MPI_Irecv(&got, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &requests[1]) == MPI_SUCCESS);
    CHECK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS && got == rank);

    /* The file pointers of a rank, and of all ranks. */
    fill();
    CALL(-1, MPI_File_set_view, file, mine, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    CALL(bytes, MPI_File_write, file, data, SIZE, MPI_INT, &status);
    CHECK(MPI_File_seek(file, 0, MPI_SEEK_SET) == MPI_SUCCESS);
    CALL(bytes, MPI_File_read, file, data, SIZE, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(is_of(rank) && MPI_File_seek(file, 0, MPI_SEEK_SET) == MPI_SUCCESS);
    CALL(bytes, MPI_File_write_all, file, data, SIZE, MPI_INT, MPI_STATUS_IGNORE);
    publish(file);
    CHECK(MPI_File_seek(file, 0, MPI_SEEK_SET) == MPI_SUCCESS);
    CALL(bytes, MPI_File_read_all, file, data, SIZE, MPI_INT, &status);
    CHECK(is_of(rank));
    CALL(-1, MPI_File_write_at_all_begin, file, 0, data, SIZE, MPI_INT);
    CALL(bytes, MPI_File_write_at_all_end, file, data, MPI_STATUS_IGNORE);
    publish(file);
    CALL(-1, MPI_File_read_at_all_begin, file, 0, data, SIZE, MPI_INT);
    CALL(bytes, MPI_File_read_at_all_end, file, data, &status);
    CHECK(is_of(rank) && MPI_Get_count(&status, MPI_INT, &got) == MPI_SUCCESS && got == SIZE);
    CALL(-1, MPI_File_set_view, file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    CALL(4, MPI_File_write_shared, file, data, 1, MPI_INT, MPI_STATUS_IGNORE);
    CALL(-1, MPI_Barrier, MPI_COMM_WORLD);
    CALL(8, MPI_File_write_ordered, file, data, 2, MPI_INT, &status);
    CALL(-1, MPI_File_close, &file);
    CHECK(file == MPI_FILE_NULL);

    /* Errors are returned: the file does not exist. */
    CHECK(MPI_File_open(MPI_COMM_SELF, "missing/none.bin", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS);
    count("MPI_File_open", -1);
    CALL(-1, MPI_Barrier, MPI_COMM_WORLD);
    if (rank == 0) CALL(-1, MPI_File_delete, "shared.bin", MPI_INFO_NULL);
}

static void communicate(void) {
    int one = rank, sum = 0, lists[4][64], all[64 * 8];
    MPI_Comm half;
    for (int i = 0; i < 64; i++) lists[0][i] = i % 8, lists[1][i] = 8 * i, lists[2][i] = 1, lists[3][i] = i;
    memset(all, 0, sizeof all);
    CALL(4, MPI_Allreduce, &one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == ranks * (ranks - 1) / 2);
    CALL(4, MPI_Allreduce, MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CALL(4, MPI_Reduce, rank == 0 ? MPI_IN_PLACE : &one, &one, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    CALL(4, MPI_Scan, &rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CALL(SIZE * 4, MPI_Bcast, data, SIZE, MPI_INT, 0, MPI_COMM_WORLD);
    CALL(8, MPI_Gather, rank == 0 ? MPI_IN_PLACE : all, 2, rank == 0 ? MPI_DATATYPE_NULL : MPI_INT, all, 2, MPI_INT, 0, MPI_COMM_WORLD);
    CALL(4 * (rank % 8), MPI_Gatherv, data, rank % 8, MPI_INT, all, lists[0], lists[1], MPI_INT, 0, MPI_COMM_WORLD);
    CALL(4, MPI_Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, MPI_COMM_WORLD);
    CALL(4, MPI_Allgatherv, &rank, 1, MPI_INT, all, lists[2], lists[3], MPI_INT, MPI_COMM_WORLD);
    CHECK(all[ranks - 1] == ranks - 1);
    CALL(8, MPI_Scatter, all, 2, MPI_INT, rank == 0 ? MPI_IN_PLACE : lists[0], 2, MPI_INT, 0, MPI_COMM_WORLD);
    CALL(4, MPI_Scatterv, all, lists[2], lists[3], MPI_INT, &sum, 1, MPI_INT, 0, MPI_COMM_WORLD);
    CALL(4 * ranks, MPI_Alltoall, all, 1, MPI_INT, lists[0], 1, MPI_INT, MPI_COMM_WORLD);
    CALL(4 * ranks, MPI_Alltoallv, all, lists[2], lists[3], MPI_INT, lists[0], lists[2], lists[3], MPI_INT, MPI_COMM_WORLD);
    CALL(4 * ranks, MPI_Reduce_scatter, all, &sum, lists[2], MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CALL(4 * ranks, MPI_Reduce_scatter_block, all, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    /* A communicator between two groups: only the ranks of the receiving one have bytes. */
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half) == MPI_SUCCESS);
    CALL(-1, MPI_Barrier, half);
    if (ranks > 1) {
        MPI_Comm between;
        int root = rank % 2 == 1 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
        CHECK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &between) == MPI_SUCCESS);
        CHECK(MPI_Bcast(&one, 1, MPI_INT, root, between) == MPI_SUCCESS);
        count("MPI_Bcast", rank % 2 == 1 ? 4 : -1);
        CHECK(MPI_Comm_free(&between) == MPI_SUCCESS);
    }
    CHECK(MPI_Comm_free(&half) == MPI_SUCCESS);
}

int main(int argc, char **argv) {
    int provided;
    CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided) == MPI_SUCCESS);
    count("MPI_Init_thread", -1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    read_and_write();
    communicate();
    char name[64];
    snprintf(name, sizeof name, "counts.%d", rank);
    CHECK(MPI_Finalize() == MPI_SUCCESS);
    count("MPI_Finalize", -1);
    FILE *out = fopen(name, "w");
    for (int i = 0; i < KINDS && counts[i].name != NULL; i++)
        fprintf(out, "%s %ld %ld\n", counts[i].name, counts[i].calls, counts[i].bytes);
    return fclose(out);
}
