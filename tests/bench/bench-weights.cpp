// bench-weights: the time of a compile of a model that is nearly all weights, against copying its
// file.
//
//   bench-weights DIRECTORY PIPE-COMPILE [--bytes N] [--tensor-bytes N] [--rounds N] [--stages N]
//
// A round copies the file with `cp --reflink=never` and `sync`, and compiles it, in turns one or
// the other first. Before either, another file of N bytes is written and removed, so that both find
// memory in the same state (what no process uses may belong to a virtual machine's host, and its
// first touch is slow), and the model is read once, so that the cache is warm. The last line has
// the medians. Needs three times N of disk and, to make the model, N of memory; defaults: 4 GiB in
// tensors of 64 MiB, 3 rounds, 4 stages. "anonymous" is the most that RssAnon showed, sampled every
// 2 ms: what the compile has for itself, without mapped files.
#include "ir/support/Median.h"
#include "tests/bench/BenchModels.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <vector>

extern char **environ;

namespace {

struct Options {
  std::string directory, compiler;
  int64_t bytes = int64_t(4) << 30, tensorBytes = int64_t(64) << 20;
  size_t rounds = 3, stages = 4;
};

struct Sample {
  double wall = 0, user = 0, system = 0; // seconds
  int64_t anonymousBytes = 0;
};

[[noreturn]] void stop(const std::string &message) {
  fmt::print(stderr, "bench-weights: {}\n", message);
  std::exit(1);
}

int64_t anonymousBytes(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);)
    if (line.rfind("RssAnon:", 0) == 0)
      return std::atoll(line.c_str() + 8) * 1024;
  return 0;
}

double toSeconds(const timeval &time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

/// Runs a command without its output, and stops the benchmark when it fails.
Sample run(const std::vector<std::string> &command) {
  std::vector<char *> arguments;
  for (const std::string &part : command)
    arguments.push_back(const_cast<char *>(part.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1 /*O_WRONLY*/, 0);
  Sample sample;
  const auto start = std::chrono::steady_clock::now();
  pid_t process = 0;
  if (posix_spawnp(&process, arguments[0], &actions, nullptr, arguments.data(), environ) != 0)
    stop("cannot run " + command[0]);
  int status = 0;
  rusage usage{};
  while (wait4(process, &status, WNOHANG, &usage) == 0) {
    sample.anonymousBytes = std::max(sample.anonymousBytes, anonymousBytes(process));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  sample.wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  posix_spawn_file_actions_destroy(&actions);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    stop("failed: " + command[0]);
  sample.user = toSeconds(usage.ru_utime);
  sample.system = toSeconds(usage.ru_stime);
  return sample;
}

void fillAndRemove(const std::string &path, uint64_t bytes) {
  const std::vector<char> block(size_t(1) << 20, 'f');
  std::ofstream file(path, std::ios::binary);
  for (uint64_t done = 0; done < bytes; done += block.size())
    file.write(block.data(), static_cast<std::streamsize>(block.size()));
  file.close();
  if (!file)
    stop("cannot write " + path);
  std::filesystem::remove(path);
}

Options readOptions(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const bool named = text.rfind("--", 0) == 0 && i + 1 < argc;
    const int64_t number = named ? std::atoll(argv[i + 1]) : 0;
    if (text == "--bytes")
      options.bytes = number;
    else if (text == "--tensor-bytes")
      options.tensorBytes = number;
    else if (text == "--rounds")
      options.rounds = static_cast<size_t>(number);
    else if (text == "--stages")
      options.stages = static_cast<size_t>(number);
    else if (options.directory.empty())
      options.directory = text;
    else
      options.compiler = text;
    i += named;
  }
  if (options.compiler.empty() || options.bytes < options.tensorBytes || options.tensorBytes < 1)
    stop("usage: bench-weights DIRECTORY PIPE-COMPILE [--bytes N] [--tensor-bytes N] [--rounds N] "
         "[--stages N]");
  std::filesystem::create_directories(options.directory);
  return options;
}

std::string cutsText(const Options &options) {
  std::string text;
  const auto layers = static_cast<size_t>(options.bytes / options.tensorBytes);
  for (const std::string &name : pipec::bench::evenLayerCuts(layers, options.stages))
    text += (text.empty() ? "" : ",") + name;
  return text;
}

} // namespace

int main(int argc, char **argv) {
  const Options options = readOptions(argc, argv);
  const std::string model =
      fmt::format("{}/weights-{}-{}.pt", options.directory, options.bytes, options.tensorBytes);
  const std::string copy = options.directory + "/copy.pt", out = options.directory + "/out.pipe";
  if (!std::filesystem::exists(model)) {
    pipec::bench::writeWeightsModel(model, options.bytes, options.tensorBytes);
    run({"sync"});
  }
  auto prepare = [&] {
    std::filesystem::remove(copy);
    std::filesystem::remove_all(out);
    fillAndRemove(options.directory + "/filling", std::filesystem::file_size(model));
    run({"sync"});
    run({"cat", model});
  };
  std::vector<double> copies, compiles, anonymous;
  fmt::print("round  copy s  compile s  copy/compile  user s  system s  anonymous MB\n");
  for (size_t round = 0; round < options.rounds; ++round) {
    Sample copied, compiled;
    for (const bool isCopy : {round % 2 == 0, round % 2 != 0}) {
      prepare();
      if (isCopy)
        copied = run({"sh", "-c", "cp --reflink=never \"$0\" \"$1\" && sync \"$1\"", model, copy});
      else
        compiled = run({options.compiler, model, "--at", cutsText(options), "-o", out});
    }
    copies.push_back(copied.wall);
    compiles.push_back(compiled.wall);
    anonymous.push_back(static_cast<double>(compiled.anonymousBytes) / 1e6);
    fmt::print("{:>5} {:>7.2f} {:>10.2f} {:>13.2f} {:>7.2f} {:>9.2f} {:>13.0f}\n", round,
               copied.wall, compiled.wall, copied.wall / compiled.wall, compiled.user,
               compiled.system, anonymous.back());
    std::fflush(stdout);
  }
  std::filesystem::remove(copy);
  std::filesystem::remove_all(out);
  const double byCopy = pipec::medianOf(copies), byCompile = pipec::medianOf(compiles);
  fmt::print("medians: copy {:.2f} s, compile {:.2f} s, copy/compile {:.2f} (demanded: 0.7); most "
             "anonymous memory {:.0f} MB\n",
             byCopy, byCompile, byCopy / byCompile,
             *std::max_element(anonymous.begin(), anonymous.end()));
  return 0;
}
