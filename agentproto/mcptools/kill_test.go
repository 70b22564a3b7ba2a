package mcptools_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/inprocess"
	"github.com/millrace/millrace/agentproto/mcptools"
)

// mortal runs a program with an MCP server, to be killed. Each line of standard input is a call, or an address and what to post
// to it. mortal answers each line with "ok", and notes results in a file before it acknowledges them.
func mortal(folder string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	results := filepath.Join(folder, "results")
	server := mcptools.Server{Name: "p", Command: []string{self, "-test.run=^$"}, Env: map[string]string{peerEnv: filepath.Join(folder, "counts")}}
	if mode := os.Getenv(perUserEnv); mode != "" {
		server.PerUser, server.Env["MODE"], server.Env["LIVES"] = true, mode, "1"
	}
	if url := os.Getenv(urlEnv); url != "" {
		server = mcptools.Server{Name: "p", URL: url}
	}
	set, err := mcptools.Open(context.Background(), mcptools.Options{
		State: filepath.Join(folder, "state"), Logger: slog.New(slog.DiscardHandler), Start: patience, Bounds: mcptools.Bounds{Ends: 1 << 30},
		Servers: []mcptools.Server{server},
		Callbacks: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err == nil {
				err = note(results, string(body))
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
			}
		}),
	})
	if err != nil {
		return err
	}
	if err := set.Resume(); err != nil {
		return err
	}
	client := &http.Client{Transport: &inprocess.Transport{Handlers: set.Local()}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		to, body, answer := strings.Cut(lines.Text(), " ")
		if !answer {
			to, body = mcptools.Base("p")+"/invoke", lines.Text()
		}
		res, err := client.Post(to, "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}
		res.Body.Close()
		fmt.Println("ok")
	}
	return set.Close(context.Background())
}

// A mortals is a process of [mortal]. Its server is at a URL, or is a program that it starts if the URL is empty.
type mortals struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func newMortal(t *testing.T, folder, url string) *mortals {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^$")
	cmd.Env, cmd.Stderr = append(os.Environ(), setEnv+"="+folder, urlEnv+"="+url), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &mortals{t, cmd, in, bufio.NewReader(out)}
}

// invoke makes a call, and returns once the call is accepted.
func (m *mortals) invoke(invocation string) {
	if _, err := fmt.Fprintln(m.in, invocation); err != nil {
		m.t.Fatal(err)
	}
	if line, err := m.out.ReadString('\n'); err != nil || line != "ok\n" {
		m.t.Fatalf("%q, %v", line, err)
	}
}

func (m *mortals) kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
}

// end closes the input of the process and waits until it ends.
func (m *mortals) end() {
	m.in.Close()
	if err := m.cmd.Wait(); err != nil {
		m.t.Error(err)
	}
}

// perUserEnv selects a server for [mortal] that runs a program for each user, in the given mode.
const perUserEnv = "MILLRACE_TEST_MCP_PER_USER"

// urlEnv is the URL of the server of [mortal]. If empty, mortal starts its server.
const urlEnv = "MILLRACE_TEST_MCP_URL"

// killed makes calls of a tool and kills the calling process at random points. It returns the results by call ID, once each call
// has one.
func killed(t *testing.T, folder, url, tool string) map[string]string {
	kills := 8
	if n, err := strconv.Atoi(os.Getenv("MILLRACE_KILLS")); err == nil {
		kills = n
	}
	calls := 0
	invoke := func(m *mortals, n int) {
		m.invoke(invocation("t", fmt.Sprint("c", n), tool, fmt.Sprintf(`{"N":%d,"MS":%d}`, n, n%7)))
	}
	for range kills {
		m := newMortal(t, folder, url)
		for range 4 {
			calls++
			invoke(m, calls)
		}
		<-time.After(time.Duration(rand.IntN(12_000)) * time.Microsecond)
		m.kill()
	}
	m := newMortal(t, folder, url)
	results := func() map[string]string {
		all := map[string]string{}
		data, _ := os.ReadFile(filepath.Join(folder, "results"))
		for line := range strings.Lines(string(data)) {
			var r struct{ Type, ID, Text string }
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if r.Type != agentproto.TypeToolResult {
				continue
			}
			if was, ok := all[r.ID]; ok && was != r.Text {
				t.Errorf("%s has two results: %q and %q", r.ID, was, r.Text)
			}
			all[r.ID] = r.Text
		}
		return all
	}
	d := &desk{t: t}
	d.until("every call has a result", func() bool { return len(results()) == calls })
	m.end()
	t.Logf("%d calls, %d kills", calls, kills)
	return results()
}

// TestMB16_Killed kills the process at random points during calls of a tool that must not be repeated, and counts how often each
// was carried out. The test fails if a call is sent again, if one gets no result, or if a result says that the outcome is unknown
// although the answer had arrived.
func TestMB16_Killed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	results := killed(t, folder, "", "count")
	d := &desk{t: t, notes: filepath.Join(folder, "counts")}
	unknown := 0
	for id, text := range results {
		runs := d.noted("count " + strings.TrimPrefix(id, "c"))
		switch {
		case text == "counted "+strings.TrimPrefix(id, "c"):
			if runs != 1 {
				t.Errorf("%s was carried out %d times", id, runs)
			}
		case strings.Contains(text, "It may have been carried out; it was not repeated."):
			if unknown++; runs > 1 {
				t.Errorf("%s was carried out %d times", id, runs)
			}
		default:
			t.Errorf("%s: %q", id, text)
		}
	}
	t.Logf("%d results that nobody knows", unknown)
}
