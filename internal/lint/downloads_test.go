package lint

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDownloads lists what a module that imports only the library downloads into an empty module
// cache, and how many modules it links. Codecs, servers and test dependencies are not among them:
// the go command downloads an archive only if one of its packages is imported. CBOR is for
// recordings of runs.
func TestDownloads(t *testing.T) {
	have, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir, cache := t.TempDir(), t.TempDir()
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	var program strings.Builder
	program.WriteString("package main\n\n")
	for _, p := range library {
		fmt.Fprintf(&program, "import _ %q\n", module+p)
	}
	program.WriteString("\nfunc main() {}\n")
	path := strings.TrimSuffix(module, "/")
	for name, text := range map[string]string{
		"go.mod":  fmt.Sprintf("module example.com/outside\n\ngo 1.26.0\n\nrequire %s v0.0.0\n\nreplace %s => %s\n", path, path, root),
		"go.sum":  string(sums),
		"main.go": program.String(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "list", "-mod=mod", "-modcacherw", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOMODCACHE="+cache, "GOSUMDB=off", // only the modules that this one was built with
		"GOPROXY=file://"+filepath.ToSlash(filepath.Join(strings.TrimSpace(string(have)), "cache", "download")))
	cmd.Stderr = new(strings.Builder)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, cmd.Stderr)
	}
	linked := slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(out)))))
	linked = slices.DeleteFunc(linked, func(p string) bool { return p == path || p == "example.com/outside" })
	var archives []string
	download := filepath.Join(cache, "cache", "download")
	err = filepath.WalkDir(download, func(name string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".zip") {
			of, err := filepath.Rel(download, filepath.Dir(filepath.Dir(name)))
			if err != nil {
				return err
			}
			archives = append(archives, filepath.ToSlash(of))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(archives)
	want := []string{"github.com/google/btree", "golang.org/x/exp"}
	if !slices.Equal(archives, want) {
		t.Errorf("a module that imports the library downloads %q, want %q", archives, want)
	}
	if !slices.Equal(linked, want) {
		t.Errorf("a module that imports the library links %q, want %q", linked, want)
	}
}
