//go:build unix

package guards

// inputsBelow are directories in which every file counts if they are in a
// certain one.
var inputsBelow = [...]struct{ parent, name, why string }{
	{".github", "workflows", "the CI runs it once it is pushed"},
	{".github", "actions", "the CI runs it once it is pushed"},
	{".github", "hooks", "the agent runs it"},
	{".config", "mise", "mise runs it when a shell enters the directory"},
	{".config", "fish", "fish runs it at its next start"},
	{"node_modules", ".bin", "npx and npm's scripts run it"},
	{".yarn", "releases", "yarn runs it at its next start"},
	{".yarn", "plugins", "yarn runs it at its next start"},
	{"gradle", "wrapper", "gradlew runs it at the next build"},
}

// inputsAt are files that count in a certain directory, wherever that is.
var inputsAt = [...]struct{ dir, name, why string }{
	{".jj/repo", "config.toml", "jj runs the programs it names at the next command there"},
	{".sl", "config", "sl runs the hooks and extensions it names at the next command there"},
	{".hg", "sharedpath", "hg takes its configuration and hooks from where it points"},
	{"tools", "bazel", "bazel's launcher runs it in its place"},
	{".github", "copilot-instructions.md", "agents follow it"},
	{".config", "dotnet-tools.json", "dotnet takes the tools it runs from it"},
	{".vim", "coc-settings.json", "vim starts the language servers it names"},
	{".lsp", "config.edn", "clojure-lsp runs the commands it names when a file is opened there"},
	{".config", "mise.toml", "mise runs it when a shell enters the directory"},
	// Common names of modules too: only where they are run from.
	{".", "manage.py", "django's commands run it"},
	{".", "tasks.py", "invoke runs it"},
}

// inputsInGit are directories of a repository's own in which every file counts.
// Git makes them itself, so that they cannot be closed: what is left of them
// after a run counts.
var inputsInGit = [...]input{
	{"rebase-merge", "git rebase --continue runs the commands it lists, with the options it gives"},
	{"rebase-apply", "git am or rebase --continue applies it, with the options it gives"},
	{"sequencer", "git cherry-pick or revert --continue takes its options from it"},
	{"remotes", "git fetches from and pushes to what it names"},
	{"branches", "git fetches from and pushes to what it names"},
}

// commandDirs are directories of the root that people have in PATH, or run by
// hand: what can be executed in them counts.
var commandDirs = [...]string{"bin", ".bin", "sbin", "script", "scripts", ".local/bin"}

// commands are what an executable in the root stands in for, where "." is in
// PATH.
var commands = [...]string{
	"ls", "cat", "cd", "cp", "mv", "rm", "ln", "mkdir", "rmdir", "touch", "chmod", "chown", "echo", "printf", "pwd", "env", "which", "test", "true",
	"grep", "rg", "sed", "awk", "find", "fd", "xargs", "sort", "head", "tail", "less", "more", "wc", "cut", "tr", "tee", "diff", "file", "stat",
	"ps", "top", "kill", "df", "du", "id", "whoami", "date", "sleep", "clear", "man", "sudo", "su", "mount", "systemctl", "crontab", "dir",
	"sh", "bash", "zsh", "fish", "dash", "tmux", "screen", "direnv", "ssh", "scp", "sftp", "rsync", "curl", "wget", "nc", "gpg", "openssl",
	"tar", "zip", "unzip", "gzip", "gunzip", "xz", "git", "gh", "hg", "jj", "sl", "svn", "vi", "vim", "nvim", "nano", "emacs", "code", "cursor",
	"make", "cmake", "ninja", "meson", "just", "task", "bazel", "gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "ar", "as", "gdb", "lldb",
	"python", "python2", "python3", "pip", "pip3", "pipx", "uv", "uvx", "poetry", "pytest", "tox", "nox", "ruff", "black", "mypy", "conda",
	"node", "npm", "npx", "yarn", "pnpm", "bun", "deno", "tsc", "go", "gofmt", "rustc", "cargo", "rustup", "java", "javac", "mvn", "gradle",
	"ruby", "gem", "bundle", "rake", "perl", "php", "composer", "lua", "R", "Rscript", "docker", "podman", "kubectl", "helm", "terraform", "aws", "gcloud",
	"claude", "codex", "gemini", "aider", "opencode", "qwen", "crush", "hermes",
}
