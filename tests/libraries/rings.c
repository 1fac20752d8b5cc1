/* A library with functions of its own by names of liburing, which it calls by these names. */
int io_uring_queue_init_params(unsigned entries, void *ring, void *parameters) {
    return entries == 1 && ring == (void *)2 && parameters == (void *)3 ? 100 : -1;
}

int io_uring_queue_init_mem(unsigned entries, void *ring, void *parameters, void *memory, unsigned long size) {
    return io_uring_queue_init_params(entries, ring, parameters) + (memory == (void *)4 && size == 5);
}

int rings(void) { return io_uring_queue_init_mem(1, (void *)2, (void *)3, (void *)4, 5); }
