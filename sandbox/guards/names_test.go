//go:build unix

package guards

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox/policy"
)

// Every one of these is run or trusted by somebody, wherever it lies.
func TestScanKnowsNames(t *testing.T) {
	root := scanRoot(t)
	since := settle(t, root)
	counts := strings.Fields(`
		eslint.config.js eslint.config.mjs eslint.config.ts vite.config.ts jest.config.cjs webpack.config.js rollup.config.mjs babel.config.js
		postcss.config.js tailwind.config.ts next.config.mjs .eslintrc .eslintrc.json .eslintrc.cjs .babelrc bunfig.toml package.json .npmrc .yarnrc.yml .pnp.cjs
		Gemfile Rakefile x.gemspec Cargo.toml build.rs rust-toolchain rust-toolchain.toml .Rprofile .ghci .pylintrc .pdbrc composer.json
		flake.nix shell.nix default.nix ansible.cfg main.tf mise.toml .mise.toml mise.local.toml mise.dev.toml .tool-versions
		.jj/repo/config.toml .sl/config .hg/hgrc tools/bazel .bazelrc WORKSPACE MODULE.bazel x.desktop
		AGENTS.md CLAUDE.md GEMINI.md .hermes.md SOUL.md .cursorrules opencode.json .github/copilot-instructions.md
		tox.ini noxfile.py pytest.ini setup.cfg conftest.py pyproject.toml CMakeLists.txt meson.build
		build.gradle build.gradle.kts lib.gradle gradlew pom.xml mvnw rules.mk .gdbinit .lldbinit .vimrc .exrc .emacs .dir-locals.el
		x.code-workspace .devcontainer/devcontainer.json .devcontainer.json docker-compose.yml docker-compose.override.yml compose.yaml Vagrantfile Procfile Dockerfile.prod
		.buildkite/pipeline.yml .circleci/config.yml azure-pipelines.yml bitbucket-pipelines.yml .travis.yml .drone.yml .woodpecker.yml .woodpecker/a.yaml
		.lvimrc .overcommit.yml .lintstagedrc.js .lintstagedrc .commitlintrc.js .prettierrc .prettierrc.js .stylelintrc.js .babelrc.js .postcssrc.js .releaserc.js
		nuget.config NuGet.Config Directory.Build.props mix.exs fabfile.py dodo.py Podfile Dangerfile Snakefile Earthfile Pipfile go.work
		.mcp/servers.json mcp.json .amazonq/x .qwen/settings.json .continue/config.yaml .factory/x .trae/x .junie/guidelines.md crush.json .crush.json QWEN.md CONVENTIONS.md
		.gitlab-ci.yml .gitattributes .config/mise/config.toml
		.helix/languages.toml .vim/coc-settings.json .dir-locals-2.el .lsp/config.edn .theia/tasks.json .project x.sublime-project go.mod x.sbt project/x.sbt
		Gulpfile.js karma.conf.js conanfile.py x.cmake Makefile.PL magefile.go x.csproj .config/dotnet-tools.json nodemon.json package-lock.json
		.rspec .rubocop.yml Guardfile Capfile Thorfile Brewfile .formatter.exs phpunit.xml .proverc .cshrc .zlogout .inputrc
		.gitpod.yml action.yml .build.yml AGENTS.override.md .github/hooks/x.json .pi/x --checkpoint-action=exec=sh -rf`)
	for _, name := range counts {
		put(t, root, "sub/"+name, "")
	}
	for _, name := range strings.Fields(`config.js x.config.json tools/x .jj/repo/x config.toml repo/config.toml main.py manage.py tasks.py lib.rs x.yml notes.md a-b git.txt .hg/store/x dotnet-tools.json .config/x .vim/x .lsp/x hooks/x.json CMakeFiles/a.dir/clean.cmake`) {
		put(t, root, "sub/"+name, "")
	}
	put(t, root, "manage.py", "")
	put(t, root, "tasks.py", "")
	dash := filepath.Join(root, "sub", "--checkpoint=1") // a directory as well
	if err := os.Mkdir(dash, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, name := range counts {
		counts[i] = "sub/" + name
	}
	got, whys := scanned(t, root, since, ScanOptions{List: 1000})
	same(t, "scan", got, append(counts, "sub/--checkpoint=1", "manage.py", "tasks.py")...)
	if whys["sub/--checkpoint=1"] != whyOption || whys["sub/-rf"] != whyOption {
		t.Errorf("whys: %q", whys)
	}
	for _, table := range [][]input{inputFiles[:], inputDirs[:]} {
		seen := map[string]bool{}
		for _, in := range table {
			if seen[in.name] {
				t.Errorf("%s is there twice", in.name)
			}
			seen[in.name] = true
		}
	}
}

func TestScanKnowsCommands(t *testing.T) {
	root := scanRoot(t)
	since := before(t, root, "bin/old", "sub/x")
	runs := []string{"bin/tool", ".bin/x", "scripts/deploy", ".local/bin/x", "git", "ls", "make", "python3", "bin/old"}
	for _, name := range append(runs, "sub/bin/tool", "sub/git", "tool", "src/ls") {
		put(t, root, name, "#!/bin/sh\n")
		if err := os.Chmod(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bin/data", "scripts/readme.txt", "docker", "code.txt", "GIT.exe", "npm.cmd", "own.exe"} {
		put(t, root, name, "")
	}
	if err := errors.Join(os.Symlink("sub/x", root+"/python"), os.Symlink("../sub/x", root+"/bin/linked")); err != nil {
		t.Fatal(err)
	}
	got, whys := scanned(t, root, since, ScanOptions{})
	same(t, "scan", got, append(runs, "GIT.exe", "npm.cmd", "python", "bin/linked")...)
	for name, why := range whys {
		if why != whyCommand {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// What a policy closes only where it exists is listed where it is made.
func TestScanKnowsWhatPoliciesClose(t *testing.T) {
	root := scanRoot(t)
	since := settle(t, root)
	var places []string
	for _, g := range policy.Guards() {
		for _, place := range g.Places {
			if name, ok := strings.CutSuffix(place, "?"); ok && g.Clause == "deny_write" {
				places = append(places, strings.TrimPrefix(name, "./"))
			}
		}
	}
	if len(places) < 40 {
		t.Fatalf("places: %q", places)
	}
	// Each is a file or a directory: one of the two must do.
	for _, name := range places {
		put(t, root, "file/"+name, "")
		put(t, root, "dir/"+name+"/x", "")
	}
	got, _ := scanned(t, root, since, ScanOptions{List: 1000})
	for _, name := range places {
		if !slices.Contains(got, "file/"+name) && !slices.Contains(got, "dir/"+name+"/x") {
			t.Errorf("%s is not listed", name)
		}
	}
}
