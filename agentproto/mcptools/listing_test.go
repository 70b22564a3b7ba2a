package mcptools

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMB04_Listing reads lists that have several pages, that repeat a cursor, and that have too many pages or tools.
func TestMB04_Listing(t *testing.T) {
	for _, c := range []struct {
		name  string
		next  func(cursor string) string
		each  int
		tools int
		err   string
	}{
		{"three pages", func(c string) string { return map[string]string{"": "a", "a": "b"}[c] }, 2, 6, ""},
		{"a circle", func(c string) string { return map[string]string{"": "a", "a": "b", "b": "a"}[c] }, 2, 0, "comes back"},
		{"no end", func(c string) string { return c + "x" }, 1, 0, "more than 100 pages"},
		{"many", func(c string) string { return c + "x" }, 400, 0, "more than 512 tools"},
	} {
		server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
		server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				if method != "tools/list" {
					return next(ctx, method, req)
				}
				p := req.GetParams().(*mcp.ListToolsParams)
				r := &mcp.ListToolsResult{NextCursor: c.next(p.Cursor)}
				for n := range c.each {
					r.Tools = append(r.Tools, &mcp.Tool{Name: fmt.Sprint(p.Cursor, n), InputSchema: map[string]any{"type": "object"}})
				}
				return r, nil
			}
		})
		here, there := mcp.NewInMemoryTransports()
		ss, err := server.Connect(t.Context(), there, nil)
		if err != nil {
			t.Fatal(err)
		}
		cs, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), here, nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := list(t.Context(), cs, Options{}.withDefaults().Bounds)
		switch {
		case c.err == "" && (err != nil || len(l.Tools) != c.tools):
			t.Errorf("%s: %v, %v", c.name, l, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v", c.name, err)
		}
		_, _ = cs.Close(), ss.Close()
	}
}

// TestMB05_Names names tools whose own names are not allowed here, and two tools whose names would collide.
func TestMB05_Names(t *testing.T) {
	empty := ""
	long := strings.Repeat("n", 128)
	schema := json.RawMessage(`{"type":"object"}`)
	s := &Server{Name: "s", Prefix: &empty}
	twice := nameOf("", "a.b")
	l := &listing{Tools: []described{
		{Name: "a.b", Schema: schema}, {Name: "a_b", Schema: schema}, {Name: long, Schema: schema}, {Name: "ü", Schema: schema}, {Name: "", Schema: schema},
		{Name: "bad", Schema: json.RawMessage(`{"type":"objekt"}`)}, {Name: "c.d", Schema: schema}, {Name: nameOf("", "c.d"), Schema: schema},
	}}
	names, tools, problems := s.offer(l)
	if len(names) != 4 || len(tools) != 4 || len(problems) != 3 || names[0] != twice || names[1] != "a_b" {
		t.Errorf("%q, %v", names, problems)
	}
	for _, n := range names {
		if !regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(n) {
			t.Errorf("%q is no name", n)
		}
	}
	s.Tools = []string{"a*"}
	if names, _, _ := s.offer(l); len(names) != 2 {
		t.Errorf("%q match a*", names)
	}
}

// TestMB20_LeftBehind ends a program that an earlier process left behind, but not another process with the same number.
func TestMB20_LeftBehind(t *testing.T) {
	if identity(os.Getpid()) == "" {
		t.Skip("this system does not tell processes of one number apart")
	}
	for _, mine := range []bool{true, false} {
		folder := t.TempDir()
		cmd := exec.Command("sleep", "1000")
		ownGroup(cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		l := left{cmd.Process.Pid, identity(cmd.Process.Pid)}
		if !mine {
			l.Identity += "0"
		}
		data, err := json.Marshal(l)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, processFile), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		endLeft(folder)
		if !mine {
			_ = cmd.Process.Signal(syscall.SIGTERM) // a background process may ignore an interrupt
		}
		_ = cmd.Wait()
		if how := cmd.ProcessState.String(); how != map[bool]string{true: "signal: killed", false: "signal: terminated"}[mine] {
			t.Errorf("mine %v: %s", mine, how)
		}
	}
}

// TestPauses checks the pauses between questions to a server whether the user has visited an address.
func TestPauses(t *testing.T) {
	d, all := new(dialog), []time.Duration{}
	for range 7 {
		all = append(all, d.later())
	}
	if got := fmt.Sprint(all); got != "[2s 4s 8s 16s 30s 30s 30s]" {
		t.Error(got)
	}
}
