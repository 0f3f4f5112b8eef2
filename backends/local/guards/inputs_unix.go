//go:build unix

package guards

import "strings"

// input is a name that somebody runs or trusts, and who does.
type input struct{ name, why string }

// inputFiles are files that count by their name, wherever they are.
var inputFiles = [...]input{
	{".envrc", "direnv runs it when a shell enters the directory"},
	{".mcp.json", "an agent starts the servers it names"},
	{"AGENTS.md", "agents follow it"},
	{"CLAUDE.md", "agents follow it"},
	{"GEMINI.md", "agents follow it"},
	{".cursorrules", "the editor's agent follows it"},
	{".windsurfrules", "the editor's agent follows it"},
	{".aider.conf.yml", "aider runs the commands it names"},

	{".gitconfig", "git runs what it names at the next command"},
	{".gitmodules", "git clones what it names"},
	{"hgrc", "hg runs the hooks and extensions it names at the next command there"},
	{".pre-commit-config.yaml", "pre-commit runs it at the next commit"},
	{"lefthook.yml", "lefthook runs it at the next commit"},
	{".lefthook.yml", "lefthook runs it at the next commit"},
	{".gitlab-ci.yml", "the CI runs it once it is pushed"},
	{".travis.yml", "the CI runs it once it is pushed"},
	{".drone.yml", "the CI runs it once it is pushed"},
	{"Jenkinsfile", "the CI runs it once it is pushed"},
	{"azure-pipelines.yml", "the CI runs it once it is pushed"},
	{"bitbucket-pipelines.yml", "the CI runs it once it is pushed"},

	{"Makefile", "make runs it"},
	{"makefile", "make runs it"},
	{"GNUmakefile", "make runs it"},
	{"justfile", "just runs it"},
	{"Justfile", "just runs it"},
	{".justfile", "just runs it"},
	{"Taskfile.yml", "task runs it"},
	{"Taskfile.yaml", "task runs it"},
	{"Rakefile", "rake runs it"},
	{"CMakeLists.txt", "cmake runs it at the next build"},
	{"meson.build", "meson runs it at the next build"},
	{"build.rs", "cargo runs it at the next build"},
	{"build.gradle", "gradle runs it at the next build"},
	{"build.gradle.kts", "gradle runs it at the next build"},
	{"settings.gradle", "gradle runs it at the next build"},
	{"settings.gradle.kts", "gradle runs it at the next build"},
	{"gradlew", "it is run to build"},
	{"mvnw", "it is run to build"},
	{"pom.xml", "maven runs the plugins it names at the next build"},
	{"configure", "it is run before the next build"},
	{".bazelrc", "bazel takes its options from it at the next build"},
	{"Dockerfile", "docker runs it at the next build"},
	{"Containerfile", "podman runs it at the next build"},
	{"docker-compose.yml", "docker starts what it names"},
	{"docker-compose.yaml", "docker starts what it names"},
	{"compose.yml", "docker starts what it names"},
	{"compose.yaml", "docker starts what it names"},
	{"Vagrantfile", "vagrant runs it"},

	{"package.json", "npm runs its scripts at the next install, test or start"},
	{".npmrc", "npm takes its registry and its shell from it"},
	{".yarnrc.yml", "yarn runs the program and plugins it names"},
	{".pnpmfile.cjs", "pnpm runs it at the next install"},
	{"setup.py", "pip runs it at the next install"},
	{"setup.cfg", "pip and pytest take what they run from it"},
	{"pyproject.toml", "pip runs the build backend it names, tools take their plugins from it"},
	{"conftest.py", "pytest runs it at the next test"},
	{"pytest.ini", "pytest loads the plugins it names at the next test"},
	{"tox.ini", "tox runs it at the next test"},
	{"noxfile.py", "nox runs it at the next test"},
	{"sitecustomize.py", "python runs it at every start where it is importable"},
	{"usercustomize.py", "python runs it at every start where it is importable"},
	{"pyvenv.cfg", "python takes its installation from it"},

	{".bashrc", "bash runs it at its next start"},
	{".bash_profile", "bash runs it at the next login"},
	{".bash_login", "bash runs it at the next login"},
	{".bash_logout", "bash runs it at the next logout"},
	{".bash_aliases", "bash runs it at its next start"},
	{".profile", "the shell runs it at the next login"},
	{".zshrc", "zsh runs it at its next start"},
	{".zshenv", "zsh runs it at its next start"},
	{".zprofile", "zsh runs it at the next login"},
	{".zlogin", "zsh runs it at the next login"},
	{".kshrc", "ksh runs it at its next start"},
	{".exrc", "vi may run it when it starts there"},
	{".vimrc", "vim may run it when it starts there"},
	{".nvimrc", "nvim may run it when it starts there"},
	{".nvim.lua", "nvim may run it when it starts there"},
	{".dir-locals.el", "emacs applies it to the files there"},
	{".gdbinit", "gdb may run it when it starts there"},
	{".lldbinit", "lldb may run it when it starts there"},
	{".mise.toml", "mise runs it when a shell enters the directory"},
	{"mise.toml", "mise runs it when a shell enters the directory"},
	{"authorized_keys", "ssh lets in who it names"},
}

// inputSuffixes are ends of file names that count.
var inputSuffixes = [...]input{
	{".code-workspace", "the editor applies its settings and tasks when it is opened"},
}

// inputDirs are directories in which every file counts.
var inputDirs = [...]input{
	{".vscode", "the editor applies it when the folder is opened"},
	{".idea", "the IDE applies it when the folder is opened"},
	{".run", "the IDE offers it to be run"},
	{".fleet", "the IDE applies it when the folder is opened"},
	{".zed", "the editor applies it when the folder is opened"},
	{".devcontainer", "the editor builds and runs it when the folder is opened"},
	{".claude", "the agent runs its hooks and follows it"},
	{".cursor", "the editor's agent runs and follows it"},
	{".codex", "the agent runs and follows it"},
	{".gemini", "the agent runs and follows it"},
	{".windsurf", "the editor's agent runs and follows it"},
	{".husky", "git runs it at the next commit"},
	{".githooks", "git runs it if core.hooksPath names it"},
	{".circleci", "the CI runs it once it is pushed"},
	{".cargo", "cargo runs the programs it names at the next build"},
	{".mvn", "maven loads what it names at the next build"},
}

// inputsBelow are directories in which every file counts if they are in a
// certain one.
var inputsBelow = [...]struct{ parent, name, why string }{
	{".github", "workflows", "the CI runs it once it is pushed"},
	{".github", "actions", "the CI runs it once it is pushed"},
	{"node_modules", ".bin", "npx and npm's scripts run it"},
	{".yarn", "releases", "yarn runs it at its next start"},
	{".yarn", "plugins", "yarn runs it at its next start"},
	{"gradle", "wrapper", "gradlew runs it at the next build"},
}

// What git trusts in a repository.
const (
	whyGitConfig = "git runs what it names (hooks, monitors, filters) at the next command there"
	whyGitHook   = "git runs it at the next matching command there"
	whyGitPlace  = "git takes its configuration and hooks from where it points"
	whyVenv      = "it runs when the virtual environment is used"
	whySitePath  = "python runs it at every start of this installation"
	whySetuid    = "it runs with its owner's rights, whoever starts it"
)

// names is the tables, to look things up in.
type names struct {
	files, dirs map[string]string
}

func newNames() *names {
	n := &names{make(map[string]string, len(inputFiles)), make(map[string]string, len(inputDirs))}
	for _, in := range inputFiles {
		n.files[in.name] = in.why
	}
	for _, in := range inputDirs {
		n.dirs[in.name] = in.why
	}
	return n
}

// file says why a file of that name counts, "" if it does not.
func (n *names) file(name []byte) string {
	if why := n.files[string(name)]; why != "" {
		return why
	}
	for _, in := range inputSuffixes {
		if len(name) > len(in.name) && string(name[len(name)-len(in.name):]) == in.name {
			return in.why
		}
	}
	return ""
}

// dir says why a directory of that name counts, or one that is in it.
func (n *names) dir(name string) string {
	if why := n.dirs[name]; why != "" {
		return why
	}
	for _, in := range inputsBelow {
		if in.parent == name {
			return in.why
		}
	}
	return ""
}

// link says why a link to target, which is outside, counts.
func (n *names) link(target string) string {
	dirs := strings.Split(target, "/")
	for i, name := range dirs {
		if i == len(dirs)-1 && n.file([]byte(name)) != "" || n.dirs[name] != "" || name == ".git" || name == ".ssh" {
			return "who writes through it changes " + target + ", outside the workspace"
		}
	}
	return ""
}
