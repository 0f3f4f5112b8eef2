package policy

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// future are the places inside a writable tree that somebody will run or trust
// later. Those marked ? are closed only where they exist: to reserve each
// missing one would litter the tree.
const future = `
git: hooks and settings that git runs: ./.git ./.husky? ./.githooks? ./.gitconfig? ./.hg/hgrc? ./.jj/repo/config.toml? ./.sl/config?
editors: tasks and settings that editors run: ./.vscode ./.idea ./.zed? ./.fleet? ./.devcontainer? ./.exrc? ./.nvimrc? ./.nvim.lua?
agents_config: settings and hooks of coding agents: ./.claude ./.cursor ./.mcp.json ./.codex? ./.gemini? ./.windsurf?
+ ./.mcp? ./.amazonq? ./.qwen? ./.continue? ./.factory? ./.trae? ./.junie? ./.opencode? ./.roo? ./.kiro?
+ ./crush.json? ./.crush.json? ./opencode.json? ./opencode.jsonc? ./mcp.json?
direnv: commands that a shell runs on entering the directory: ./.envrc
workflows: jobs that the code host runs: ./.github/workflows ./.gitlab-ci.yml? ./.circleci?
shell: files that a shell runs when it starts: ./.bashrc? ./.bash_profile? ./.bash_login? ./.bash_logout? ./.bash_aliases?
+ ./.profile? ./.zshrc? ./.zshenv? ./.zprofile? ./.zlogin? ./.zlogout? ./.kshrc? ./.cshrc? ./.tcshrc? ./.login?
+ ./.config/fish? ./.xprofile? ./.xinitrc? ./.pam_environment? ./.inputrc?
policy!: the policy itself: 
`

// guardTree closes what is run or trusted later in one writable tree.
func (b *builder) guardTree(tree string) error {
	for _, g := range b.table {
		if g.Clause != "deny_write" || b.open[g.Name] {
			continue
		}
		for _, place := range g.Places {
			name, onlyExisting := strings.CutSuffix(place, "?")
			name = filepath.Join(tree, name)
			switch {
			case name == filepath.Join(tree, ".git"):
				if err := b.guardRepositories(g.Name, tree); err != nil {
					return err
				}
			case !onlyExisting || b.links.exists(name):
				b.denyWrite(g.Name, name)
			}
		}
	}
	return b.guardOwn()
}

// guardOwn closes the policy, and refuses it where a script could put another
// one, or another configuration, in its place.
func (b *builder) guardOwn() error {
	type file struct{ what, name string }
	var own []file
	if IsFile(b.policy.Name) {
		b.denyWrite("policy", b.policy.Name)
		own = append(own, file{"this policy file", b.policy.Name})
	}
	if home := b.c.HermesHome; home != "" {
		own = append(own, file{"the engine's configuration", filepath.Join(home, "config.yaml")})
		own = append(own, file{"the engine's environment", filepath.Join(home, ".env")})
	}
	for _, dir := range b.c.StateDirs {
		own = append(own, file{"the engine's state", dir})
	}
	for _, o := range own {
		if link := b.replaceable(o.name); link != "" {
			return refuse("policy: %s, %s, is reached through the link %s, which a script could replace: name it as %s, or replace the link by what it leads to", o.what, o.name, link, b.links.real(o.name))
		}
	}
	return nil
}

// writable reports whether a real path is in a tree that a script may write.
func (b *builder) writable(real string) bool {
	return slices.ContainsFunc(slices.Concat(b.policy.Write, b.policy.Private), func(tree string) bool {
		return sandbox.Covers(tree, real)
	})
}

// replaceable is the first link on the way to a place that a script could
// replace by something of its own, "" if there is none.
func (b *builder) replaceable(name string) (first string) {
	b.links.walk(name, func(s step) {
		if first == "" && s.link && b.writable(s.name) {
			first = s.name
		}
	})
	return first
}
