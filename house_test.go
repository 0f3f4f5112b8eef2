package hermesexec

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/hermes-exec/hermes-exec"

// floors is the import policy: a package may import only what stands behind
// it. It is a statement of policy: a build that does not fit it is wrong, not
// the table. Tests are exempt. "..." means everything of the module.
const floors = `
.                   :
sandbox             :
rpc                 :
registry            :
envfilter           :
output              :
walk                :
engine/approval     :
config              :
guest               : sandbox output walk guest/seccomp guest/landlock guest/files
guest/files         : sandbox
guest/files/filestest : sandbox
guest/serve         : sandbox sandbox/sshwire sandbox/policy guest/files walk
guest/seccomp       :
guest/landlock      :
sandbox/sandboxtest : sandbox output walk rpc
sandbox/policy      : sandbox
sandbox/guards      : sandbox
sandbox/sshwire     : sandbox
sandbox/sshbox      : sandbox sandbox/sshwire output walk
backends/local      : sandbox sandbox/guards output walk guest guest/* backends/local/*
backends/docker     : sandbox sandbox/* guest backends/docker/*
backends/ssh        : sandbox sandbox/* guest backends/ssh/*
backends/local/cgroup : sandbox
registry/tools      : sandbox registry output walk engine/approval registry/tools/*
registry/tools/patchtext :
registry/tools/web       : registry/tools/pdftext
registry/tools/pdftext   :
engine              : sandbox sandbox/policy rpc registry envfilter output engine/approval
cmd/hermes-exec     : ...
bench               : ...
bench/report        : ...
integration         :
`

// sdks names the packages that alone may import an outside module, so that a
// heavy dependency stays behind one door.
const sdks = `
github.com/sirupsen/logrus : cmd/hermes-exec
github.com/spf13/cobra     : cmd/hermes-exec
go.yaml.in/yaml/v4         : config registry/tools sandbox/policy
mvdan.cc/sh/v3             : engine/approval registry/tools sandbox/policy
github.com/moby/moby       : backends/docker
github.com/pkg/sftp        : guest/serve
golang.org/x/crypto        : sandbox/sshbox guest/serve backends/ssh
github.com/kevinburke/ssh_config : backends/ssh
`

// forbidden are names that say nothing about what a package holds.
var forbidden = []string{"internal", "pkg", "util", "utils", "common", "types", "helper", "helpers", "manager", "base"}

func table(t *testing.T, text string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		name, list, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("table row without a colon: %q", line)
		}
		rows[strings.TrimSpace(name)] = strings.Fields(list)
	}
	return rows
}

// source is one parsed Go file.
type source struct {
	name, pkg string // file and package directory, relative to the module
	test      bool
	file      *ast.File
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, source{filepath.ToSlash(name), path.Dir(filepath.ToSlash(name)), strings.HasSuffix(name, "_test.go"), file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestFloors(t *testing.T) {
	rows, doors := table(t, floors), table(t, sdks)
	seen := map[string]bool{}
	for _, src := range sources(t) {
		if src.test {
			continue
		}
		allowed, ok := rows[src.pkg]
		if !ok {
			t.Errorf("%s: package %s has no row in the floor table", src.name, src.pkg)
			continue
		}
		seen[src.pkg] = true
		for _, spec := range src.file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			for sdk, owners := range doors {
				if (imported == sdk || strings.HasPrefix(imported, sdk+"/")) && !slices.Contains(owners, src.pkg) {
					t.Errorf("%s imports %s, which only %v may", src.name, imported, owners)
				}
			}
			ours, ok := strings.CutPrefix(imported, module+"/")
			if !ok || slices.Contains(allowed, "...") || slices.Contains(allowed, ours) {
				continue
			}
			if slices.ContainsFunc(allowed, func(a string) bool { ok, _ := path.Match(a, ours); return ok }) {
				continue
			}
			t.Errorf("%s: %s may not import %s", src.name, src.pkg, ours)
		}
	}
	for name := range rows {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("floor table: there is no package %s", name)
		}
	}
}

func TestEveryPackageIsDocumentedOnce(t *testing.T) {
	docs, pkgs := map[string][]string{}, map[string]bool{}
	for _, src := range sources(t) {
		if src.test {
			continue
		}
		pkgs[src.pkg] = true
		if src.file.Doc != nil {
			docs[src.pkg] = append(docs[src.pkg], path.Base(src.name))
		}
	}
	for pkg := range pkgs {
		if !slices.Equal(docs[pkg], []string{"doc.go"}) {
			t.Errorf("package %s: its comment must be in doc.go and only there, found in %v", pkg, docs[pkg])
		}
	}
}

func TestNoInitAndNoVagueNames(t *testing.T) {
	for _, src := range sources(t) {
		for dir := range strings.SplitSeq(src.pkg, "/") {
			if slices.Contains(forbidden, dir) {
				t.Errorf("%s: a package named %s", src.name, dir)
			}
		}
		base := strings.TrimSuffix(strings.TrimSuffix(path.Base(src.name), ".go"), "_test")
		if slices.Contains(forbidden, base) {
			t.Errorf("%s: a file named %s", src.name, base)
		}
		for _, decl := range src.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" && src.name != "guest/early.go" {
				t.Errorf("%s has an init function", src.name)
			}
		}
	}
}

func TestFilesStaySmall(t *testing.T) {
	for _, src := range sources(t) {
		if src.test {
			continue
		}
		f, err := os.Open(src.name)
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for s := bufio.NewScanner(f); s.Scan(); {
			lines++
		}
		f.Close()
		if lines > 500 {
			t.Errorf("%s has %d lines: find the second noun", src.name, lines)
		}
	}
}
