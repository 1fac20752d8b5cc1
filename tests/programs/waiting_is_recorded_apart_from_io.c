// Calls blocking functions, both when they have to wait and when they do not. The program checks the results, the directives check
// the number of events.
//= compile: -pthread
//= passes: off
//= case: all
//= env: DLIO_TRACE_ALL=1
//= among: poll=6 ppoll=3 select=3 pselect=2 epoll_wait=2 epoll_pwait=3 accept=1 accept4=1
//= among: wait=2 waitpid=3 waitid=1 wait3=1 wait4=1 sleep=1 usleep=1 nanosleep=3 clock_nanosleep=1 pause=1
//= among: sigsuspend=1 sigwait=1 sigwaitinfo=1 sigtimedwait=2 pthread_cond_wait=1 pthread_cond_timedwait=1
//= among: pthread_cond_clockwait=1 pthread_join=1 pthread_timedjoin_np=1 pthread_clockjoin_np=1 pthread_barrier_wait=2
//= among: sem_wait=2 sem_timedwait=1 sem_clockwait=1 semop=1 semtimedop=1 cnd_wait=1 cnd_timedwait=1 thrd_join=1 thrd_sleep=1
//= case: long ones only
//= among: poll=>=1 ppoll=>=1 select=>=1 pselect=>=1 epoll_wait=>=1 epoll_pwait=>=1 waitpid=>=1 wait=>=1 sem_timedwait=1 pause=1
//= case: not asked for
//= env: DLIO_TRACE_LAYERS=posix,stdio,process,app
//= processes: 0
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include "expect.h"

enum { MS = 1000000 };
static const struct timespec none = {0, 0}, moment = {0, 5 * MS};
static int ends[2];
static volatile int over;
static struct pollfd *volatile nowhere = (void *)8;

static struct timespec after(clockid_t clock, long ns) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_sec += ns / (1000 * MS);
    time.tv_nsec += ns % (1000 * MS);
    if (time.tv_nsec >= 1000 * MS) time.tv_sec++, time.tv_nsec -= 1000 * MS;
    return time;
}

static void descriptors(void) {
    struct pollfd one = {ends[0], POLLIN, 0};
    EXPECT(poll(&one, 1, 0) == 0);
    EXPECT(poll(&one, 1, 5) == 0);
    EXPECT(ppoll(&one, 1, &none, NULL) == 0);
    EXPECT(ppoll(&one, 1, &moment, NULL) == 0);
    errno = 0;
    EXPECT(poll(nowhere, 1, 0) == -1 && errno == EFAULT);
    fd_set set;
    struct timeval nothing = {0, 0}, little = {0, 5000};
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    EXPECT(select(ends[0] + 1, &set, NULL, NULL, &nothing) == 0);
    FD_SET(ends[0], &set);
    EXPECT(select(ends[0] + 1, &set, NULL, NULL, &little) == 0);
    FD_SET(ends[0], &set);
    EXPECT(pselect(ends[0] + 1, &set, NULL, NULL, &none, NULL) == 0);
    FD_SET(ends[0], &set);
    EXPECT(pselect(ends[0] + 1, &set, NULL, NULL, &moment, NULL) == 0);
    int many = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {0}};
    EXPECT(epoll_ctl(many, EPOLL_CTL_ADD, ends[0], &event) == 0);
    EXPECT(epoll_wait(many, &event, 1, 0) == 0);
    EXPECT(epoll_wait(many, &event, 1, 5) == 0);
    EXPECT(epoll_pwait(many, &event, 1, 0, NULL) == 0);
    EXPECT(epoll_pwait(many, &event, 1, 5, NULL) == 0);
    syscall(SYS_write, ends[1], "!", 1);
    EXPECT(poll(&one, 1, -1) == 1 && one.revents == POLLIN);
    syscall(SYS_close, many);
}

/* Functions that fortified and old programs call. */
int __poll(struct pollfd *, nfds_t, int), __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
int __select(int, fd_set *, fd_set *, fd_set *, struct timeval *), __nanosleep(const struct timespec *, struct timespec *);
pid_t __wait(int *), __waitpid(pid_t, int *, int);

static void other_names(void) {
    struct pollfd one = {-1, POLLIN, 0};
    struct timeval nothing = {0, 0};
    struct epoll_event event;
    int status, many = epoll_create1(0);
    EXPECT(__poll(&one, 1, 0) == 0 && __poll_chk(&one, 1, 0, sizeof one) == 0);
    EXPECT(__ppoll_chk(&one, 1, &none, NULL, sizeof one) == 0 && __select(0, NULL, NULL, NULL, &nothing) == 0);
    EXPECT(epoll_pwait2(many, &event, 1, &none, NULL) == 0 && __nanosleep(&none, NULL) == 0);
    EXPECT(__wait(&status) == -1 && __waitpid(-1, &status, 0) == -1);
    syscall(SYS_close, many);
}

static void sockets(void) {
    struct sockaddr_un address = {AF_UNIX, "socket"};
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT(bind(server, (struct sockaddr *)&address, sizeof address) == 0 && listen(server, 2) == 0);
    for (int i = 0; i < 2; i++) {
        int client = socket(AF_UNIX, SOCK_STREAM, 0);
        EXPECT(connect(client, (struct sockaddr *)&address, sizeof address) == 0);
        int accepted = i ? accept4(server, NULL, NULL, SOCK_CLOEXEC) : accept(server, NULL, NULL);
        EXPECT(accepted > client);
        syscall(SYS_close, accepted);
        syscall(SYS_close, client);
    }
    syscall(SYS_unlink, "socket");
}

static pid_t child(int status) {
    pid_t pid = syscall(SYS_fork);
    if (pid == 0) {
        syscall(SYS_nanosleep, &moment, NULL);
        syscall(SYS_exit_group, status);
    }
    return pid;
}

static void children(void) {
    int status;
    siginfo_t info;
    pid_t pid = child(1);
    EXPECT(wait(&status) == pid && WEXITSTATUS(status) == 1);
    pid = child(2);
    EXPECT(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 2);
    pid = child(3);
    EXPECT(waitid(P_PID, pid, &info, WEXITED) == 0 && info.si_status == 3);
    pid = child(4);
    EXPECT(wait3(&status, 0, NULL) == pid && WEXITSTATUS(status) == 4);
    pid = child(5);
    EXPECT(wait4(pid, &status, 0, NULL) == pid && WEXITSTATUS(status) == 5);
    errno = 0;
    EXPECT(waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);
}

static void handler(int signal) { (void)signal; }

static void *disturbs(void *thread) {
    pthread_t target = *(pthread_t *)thread;
    while (!over) {
        // A wait that returns immediately is not an event.
        syscall(SYS_nanosleep, &moment, NULL);
        pthread_kill(target, SIGUSR1);
    }
    return NULL;
}

static void sleeps(void) {
    EXPECT(sleep(0) == 0 && usleep(1000) == 0 && nanosleep(&moment, NULL) == 0 && thrd_sleep(&moment, NULL) == 0);
    EXPECT(clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL) == 0);
    struct timespec wrong = {0, -1};
    errno = 0;
    EXPECT(nanosleep(&wrong, NULL) == -1 && errno == EINVAL);
}

static void signals(void) {
    sigset_t set, empty;
    siginfo_t info;
    int number;
    sigemptyset(&set);
    sigemptyset(&empty);
    sigaddset(&set, SIGUSR2);
    signal(SIGUSR2, handler);
    sigprocmask(SIG_BLOCK, &set, NULL);
    EXPECT(sigtimedwait(&set, &info, &moment) == -1 && errno == EAGAIN);
    raise(SIGUSR2);
    EXPECT(sigtimedwait(&set, &info, &moment) == SIGUSR2);
    raise(SIGUSR2);
    EXPECT(sigwaitinfo(&set, &info) == SIGUSR2);
    raise(SIGUSR2);
    EXPECT(sigwait(&set, &number) == 0 && number == SIGUSR2);
    raise(SIGUSR2);
    EXPECT(sigsuspend(&empty) == -1 && errno == EINTR);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static int ready;

static void *wakes(void *unused) {
    syscall(SYS_nanosleep, &moment, NULL);
    pthread_mutex_lock(&mutex);
    ready = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    syscall(SYS_nanosleep, &moment, NULL);
    sem_post(&semaphore);
    pthread_barrier_wait(&barrier);
    return unused;
}

static void *naps(void *unused) {
    syscall(SYS_nanosleep, &moment, NULL);
    return unused;
}

static int runs(void *unused) { return naps(unused) != NULL; }

static void threads(void) {
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    sem_init(&semaphore, 0, 1);
    EXPECT(sem_wait(&semaphore) == 0);
    pthread_mutex_lock(&mutex);
    pthread_create(&thread, NULL, wakes, NULL);
    // Woken by a function that is not hooked: both must use the same variable.
    while (!ready) EXPECT(pthread_cond_wait(&condition, &mutex) == 0);
    struct timespec until = after(CLOCK_REALTIME, 5 * MS);
    EXPECT(pthread_cond_timedwait(&condition, &mutex, &until) == ETIMEDOUT);
    until = after(CLOCK_MONOTONIC, 5 * MS);
    EXPECT(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
    EXPECT(sem_wait(&semaphore) == 0);
    errno = 0;
    until = after(CLOCK_REALTIME, 5 * MS);
    EXPECT(sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT);
    until = after(CLOCK_MONOTONIC, 5 * MS);
    EXPECT(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until) == -1 && errno == ETIMEDOUT);
    int last = pthread_barrier_wait(&barrier);
    EXPECT(last == 0 || last == PTHREAD_BARRIER_SERIAL_THREAD);
    EXPECT(pthread_join(thread, NULL) == 0);
    pthread_create(&thread, NULL, naps, NULL);
    until = after(CLOCK_REALTIME, 60000L * MS);
    EXPECT(pthread_timedjoin_np(thread, NULL, &until) == 0);
    pthread_create(&thread, NULL, naps, NULL);
    until = after(CLOCK_MONOTONIC, 60000L * MS);
    EXPECT(pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0);
    thrd_t other;
    int result;
    EXPECT(thrd_create(&other, runs, NULL) == thrd_success);
    EXPECT(thrd_join(other, &result) == thrd_success && result == 0);
}

static int wakes_c11(void *unused) {
    (void)unused;
    syscall(SYS_nanosleep, &moment, NULL);
    mtx_lock((mtx_t *)&mutex);
    ready = 2;
    cnd_signal((cnd_t *)&condition);
    mtx_unlock((mtx_t *)&mutex);
    return 0;
}

static void threads_of_c11(void) {
    thrd_t thread;
    mtx_lock((mtx_t *)&mutex);
    thrd_create(&thread, wakes_c11, NULL);
    thrd_detach(thread);
    while (ready != 2) EXPECT(cnd_wait((cnd_t *)&condition, (mtx_t *)&mutex) == thrd_success);
    struct timespec until = after(CLOCK_REALTIME, 5 * MS);
    EXPECT(cnd_timedwait((cnd_t *)&condition, (mtx_t *)&mutex, &until) == thrd_timedout);
    mtx_unlock((mtx_t *)&mutex);
}

static void semaphores(void) {
    int set = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf up = {0, 1, 0}, down = {0, -1, 0};
    EXPECT(semop(set, &up, 1) == 0 && semtimedop(set, &down, 1, &moment) == 0);
    errno = 0;
    semctl(set, 0, IPC_RMID);
}

static void interrupted(void) {
    pthread_t other, me = pthread_self();
    signal(SIGUSR1, handler);
    pthread_create(&other, NULL, disturbs, &me);
    errno = 0;
    EXPECT(pause() == -1 && errno == EINTR);
    over = 1;
    pthread_detach(other);
}

int main(void) {
    EXPECT(syscall(SYS_pipe2, ends, 0) == 0);
    other_names();
    descriptors();
    sockets();
    children();
    sleeps();
    signals();
    threads();
    threads_of_c11();
    semaphores();
    interrupted();
    return PASSED;
}
