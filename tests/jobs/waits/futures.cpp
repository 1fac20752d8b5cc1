// A trainer and its readers in C++: `futures HOW WHAT STEPS STEP_MS FILES...`. Prints what its own clocks say as one line
// of JSON.
//
// HOW the training gets a batch: `async` makes one batch ahead by std::async, in a thread
// of its own; `pool` has two std::thread, a queue and a
// std::condition_variable, and a promise for each batch.
// WHAT a reader does: `read` a file, or `decode` for 25 ms.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <fcntl.h>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

constexpr int AHEAD = 3;

double seconds(clockid_t clock) {
    timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

struct Parts {
    double storage = 0, cpu = 0, wall = 0;
};

Parts make(const std::string &path, bool decodes) {
    Parts parts;
    double start = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
    std::vector<char> buffer(64 << 10);
    int fd = open(path.c_str(), O_RDONLY);
    if (read(fd, buffer.data(), buffer.size()) < 0)
        std::perror(path.c_str());
    close(fd);
    parts.storage = seconds(CLOCK_MONOTONIC) - start - (seconds(CLOCK_THREAD_CPUTIME_ID) - cpu);
    while (decodes && seconds(CLOCK_THREAD_CPUTIME_ID) < cpu + 0.025) {
    }
    parts.cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
    parts.wall = seconds(CLOCK_MONOTONIC) - start;
    return parts;
}

class Pool {
  public:
    Pool() {
        for (auto &thread : threads)
            thread = std::thread([this] { run(); });
    }

    ~Pool() {
        {
            std::lock_guard lock(mutex);
            ended = true;
        }
        changed.notify_all();
        for (auto &thread : threads)
            thread.join();
    }

    std::future<Parts> submit(std::function<Parts()> work) {
        std::packaged_task<Parts()> task(std::move(work));
        auto result = task.get_future();
        {
            std::lock_guard lock(mutex);
            tasks.push_back(std::move(task));
        }
        changed.notify_one();
        return result;
    }

  private:
    void run() {
        for (;;) {
            std::unique_lock lock(mutex);
            changed.wait(lock, [this] { return ended || !tasks.empty(); });
            if (tasks.empty())
                return;
            auto task = std::move(tasks.front());
            tasks.pop_front();
            lock.unlock();
            task();
        }
    }

    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::packaged_task<Parts()>> tasks;
    bool ended = false;
    std::thread threads[2];
};

} // namespace

int main(int count, char **arguments) {
    if (count < 6)
        return 2;
    bool is_pool = std::string(arguments[1]) == "pool", decodes = std::string(arguments[2]) == "decode";
    int steps = std::atoi(arguments[3]);
    auto step = std::chrono::microseconds(long(std::atof(arguments[4]) * 1000));
    Pool pool;
    std::deque<std::future<Parts>> ahead;
    auto request = [&](int index) {
        std::string path = arguments[5 + index % (count - 5)];
        auto work = [path, decodes] { return make(path, decodes); };
        ahead.push_back(is_pool ? pool.submit(work) : std::async(std::launch::async, work));
    };
    Parts total;
    double start = seconds(CLOCK_MONOTONIC), waited = 0;
    for (int index = 0; index < (is_pool ? AHEAD : 1) && index < steps; index++)
        request(index);
    for (int index = 0; index < steps; index++) {
        double from = seconds(CLOCK_MONOTONIC);
        Parts parts = ahead.front().get();
        waited += seconds(CLOCK_MONOTONIC) - from;
        ahead.pop_front();
        total.storage += parts.storage, total.cpu += parts.cpu, total.wall += parts.wall;
        if (int next = index + (is_pool ? AHEAD : 1); next < steps)
            request(next);
        std::this_thread::sleep_for(step);
    }
    double trained = seconds(CLOCK_MONOTONIC) - start, scale = waited / total.wall;
    double rest = total.wall - total.storage - total.cpu;
    std::printf("{\"trained_s\": %.3f, \"waited_s\": %.3f, ", trained, waited);
    std::printf("\"causes\": {\"storage\": %.3f, \"cpu\": %.3f, \"no-cpu\": %.3f}}\n", total.storage * scale,
                total.cpu * scale, rest > 0 ? rest * scale : 0);
}
