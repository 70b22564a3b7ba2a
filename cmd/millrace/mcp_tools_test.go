package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestMB22_NoShell parses commands of MCP servers. It leaves shell syntax in them as it is.
func TestMB22_NoShell(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`a; touch x`:                                             `a_ ["a;" "touch" "x"] map[] `,
		`a $(touch x) '$HOME' "b c" d\ e`:                        `a ["a" "$(touch" "x)" "$HOME" "b c" "d e"] map[] `,
		`npx -y @scope/server-everything@2`:                      `everything ["npx" "-y" "@scope/server-everything@2"] map[] `,
		`x=K=@` + file + ` L=1 /usr/bin/mcp-server-git --flag=v`: `x ["/usr/bin/mcp-server-git" "--flag=v"] map[K:secret L:1] `,
		`/usr/bin/mcp-server-git`:                                `git ["/usr/bin/mcp-server-git"] map[] `,
		`search=https://mcp.example/mcp`:                         `search [] map[] https://mcp.example/mcp`,
	} {
		var f mcpFlags
		if err := f.set(text); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		s := f.all[0]
		if got := fmt.Sprintf("%s %q %v %s", s.Name, s.Command, s.Env, s.URL); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "https://mcp.example/mcp", "A=1", `a "b`, "K=@" + file + ".none a", "x=K=@" + file + ".none a"} {
		if err := new(mcpFlags).set(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	f := mcpFlags{headers: []string{"git=authorization=@" + file}, repeat: []string{"git=push=never"}}
	if err := f.set("/usr/bin/mcp-server-git"); err != nil {
		t.Fatal(err)
	}
	if err := f.settle(); err != nil || f.all[0].Header["Authorization"].Reveal() != "secret" || f.all[0].Repeat["push"] != "never" {
		t.Errorf("%+v, %v", f.all[0], err)
	}
	f.idle, f.perUser = []string{"git=never"}, []string{"git=7"}
	if err := f.settle(); err != nil || f.all[0].Idle >= 0 || !f.all[0].PerUser || f.all[0].MaxUsers != 7 {
		t.Errorf("%+v, %v", f.all[0], err)
	}
	for _, wrong := range []mcpFlags{
		{idle: []string{"git"}}, {idle: []string{"git=-1m"}}, {idle: []string{"other=1m"}}, {idle: []string{"web=1m"}},
		{perUser: []string{"git=0"}}, {perUser: []string{"git=many"}}, {perUser: []string{"git="}}, {perUser: []string{"other"}}, {perUser: []string{"web"}},
	} {
		for _, server := range []string{"/usr/bin/mcp-server-git", "web=https://mcp.example/mcp"} {
			if err := wrong.set(server); err != nil {
				t.Fatal(err)
			}
		}
		if err := wrong.settle(); err == nil {
			t.Errorf("taken is %q %q", wrong.idle, wrong.perUser)
		}
	}
	f.headers = []string{"other=authorization=x"}
	if err := f.settle(); err == nil {
		t.Error("a header of no server was taken")
	}
}
