package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/freeport"
)

// pageCommands returns the commands of a page, grouped by heading.
func pageCommands(t *testing.T, page string) (sections [][]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	var open string // a command that continues on the next line
	until := ""     // the line that ends a here-document
	fenced := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		fenced = fenced != strings.HasPrefix(line, "```")
		if strings.HasPrefix(line, "## ") {
			sections, commands = append(sections, commands), nil
		}
		code, ok := strings.CutPrefix(line, "    ")
		if !ok || fenced {
			continue
		}
		if open += code + "\n"; until == "" {
			if _, word, found := strings.Cut(code, "<<"); found {
				until = word
			}
		} else if code == until {
			until = ""
		}
		if until == "" && !strings.HasSuffix(code, `\`) && !strings.HasSuffix(code, "|") {
			commands, open = append(commands, strings.TrimSuffix(open, "\n")), ""
		}
	}
	return append(sections, commands)
}

// TestReadmeCommands runs the commands of the pages about the runtime and durable flows as written, except
// that each port is replaced by a free one.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ports := map[string]string{}
	address := regexp.MustCompile(`\b(7[0-9]{3}|8[0-9]{3})\b`)
	free := func(text string) string {
		return address.ReplaceAllStringFunc(text, func(port string) string {
			if ports[port] == "" {
				at, err := freeport.Address()
				if err != nil {
					t.Fatal(err)
				}
				ports[port] = strings.TrimPrefix(at, "127.0.0.1:")
			}
			return ports[port]
		})
	}
	prelude := fmt.Sprintf("millrace() { %s=1 '%s' \"$@\"; }\n", actEnv, self)
	if _, err := exec.LookPath("curl"); err != nil {
		prelude += fmt.Sprintf("curl() { %s=curl '%s' \"$@\"; }\n", actEnv, self)
	}
	dir := t.TempDir()
	deposits := filepath.Join(t.TempDir(), "deposits")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", deposits, "../../examples/deposits").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shell := func(command string) *exec.Cmd {
		text := strings.ReplaceAll(command, "go run ./cmd/millrace", "millrace")
		text = strings.Replace(text, "go run ./examples/deposits", "exec '"+deposits+"' --listen 127.0.0.1:7360", 1)
		// The next lines set what the pages leave to defaults.
		text = regexp.MustCompile(`millrace tool$`).ReplaceAllString(text, "millrace tool --port 8801 clock")
		if strings.Contains(text, "millrace migrate") {
			text += " --api http://127.0.0.1:7341"
		}
		if strings.Contains(text, "millrace serve") && !strings.Contains(text, "--api") {
			text += " --api 127.0.0.1:7341 --listen 127.0.0.1:7340"
		}
		if long := strings.Contains(text, "millrace tool") || strings.Contains(text, "millrace serve"); long {
			// The process ends with its standard input; killing the shell would leave it running.
			text = strings.Replace(strings.Replace(text, "millrace tool", "millrace tool --leash", 1), "millrace serve", "millrace serve --leash", 1)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", prelude+free(text))
		cmd.Dir = dir
		return cmd
	}
	ran := map[string]int{}
	var tools []func()
	for _, commands := range slices.Concat(pageCommands(t, "../../doc/agents.md"), pageCommands(t, "../../doc/durable.md")) {
		var servers []func()
		for _, command := range commands {
			kind := regexp.MustCompile(`millrace (tool|serve|run|migrate)|^curl|^cat|^kill|^go run ./examples/deposits`).FindString(command)
			switch kind {
			case "millrace tool":
				tools = append(tools, background(t, shell(command), "http://"))
			case "millrace serve":
				servers = append(servers, background(t, shell(command), "calls at http://"))
			case "go run ./examples/deposits":
				cmd := shell(command)
				ended := background(t, cmd, "deposits at http://")
				end := func() { cmd.Process.Kill(); ended() }
				t.Cleanup(end)
				servers = append(servers, end)
			case "millrace run", "millrace migrate", "curl", "cat", "kill":
				out, err := shell(command).CombinedOutput()
				if err != nil || strings.Contains(string(out), `"error"`) {
					t.Errorf("%s\n%v\n%s", command, err, out)
				}
				checkReadme(t, command, string(out))
			default:
				t.Errorf("is this a command that can be run? %s", command)
			}
			ran[kind]++
		}
		for _, end := range servers {
			end()
		}
	}
	for _, end := range tools {
		end()
	}
	for kind, want := range map[string]int{"millrace tool": 3, "millrace serve": 3, "millrace run": 1, "millrace migrate": 1, "curl": 8, "kill": 1, "go run ./examples/deposits": 2} {
		if ran[kind] < want {
			t.Errorf("the pages have %d commands with %s, want at least %d", ran[kind], kind, want)
		}
	}
}

// checkReadme checks the output of a command.
func checkReadme(t *testing.T, command, out string) {
	t.Helper()
	for part, want := range map[string]string{
		"millrace run": `"text":"42"`, "calls/t1/sum": `"text":"42"`, "localhost:7341/threads/s1/messages?": "Count, please.", "localhost:7351/threads": "Count, please.",
		"migrate": "is at http://127.0.0.1:", "7360/deposits": `{"amount":5,"balance":5}`,
	} {
		if strings.Contains(command, part) && !strings.Contains(out, want) {
			t.Errorf("%s\nsays %s\nwant %s in it", command, out, want)
		}
	}
}

// background starts a command that runs until end is called, and waits until its output contains
// up.
func background(t *testing.T, cmd *exec.Cmd, up string) (end func()) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said := &sayings{up: up, isUp: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	select {
	case <-said.isUp:
	case <-ended:
		t.Fatalf("%q ended: %s", cmd.Args, said.text())
	case <-time.After(time.Minute):
		t.Fatalf("%q: is not up: %s", cmd.Args, said.text())
	}
	end = func() { in.Close(); <-ended }
	t.Cleanup(end)
	return end
}

// A sayings collects the output of a process. isUp is closed when it contains up.
type sayings struct {
	mu   sync.Mutex
	all  bytes.Buffer
	up   string
	once sync.Once
	isUp chan struct{}
}

func (s *sayings) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all.Write(p)
	if strings.Contains(s.all.String(), s.up) {
		s.once.Do(func() { close(s.isUp) })
	}
	return len(p), nil
}

func (s *sayings) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// curl implements the options of curl that the pages use, for systems without it: -i, -H @FILE or a header,
// -d DATA, --json DATA and a URL.
func curl(args []string) error {
	fs := flag.NewFlagSet("curl", flag.ContinueOnError)
	headers := fs.String("H", "", "a `header`, or @FILE of headers")
	data := fs.String("d", "", "`body` of a POST")
	document := fs.String("json", "", "`body` of a POST that is JSON")
	fs.Bool("i", false, "what is written has the body in it, with or without headers")
	if err := fs.Parse(args); err != nil {
		return err
	}
	method := http.MethodGet
	if *data += *document; *data != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+fs.Arg(0), strings.NewReader(*data))
	if err != nil {
		return err
	}
	lines := []byte(*headers)
	if name, ok := strings.CutPrefix(*headers, "@"); ok {
		if lines, err = os.ReadFile(name); err != nil {
			return err
		}
	}
	if *document != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for line := range strings.Lines(string(lines)) {
		name, value, _ := strings.Cut(line, ":")
		req.Header.Set(name, strings.TrimSpace(value))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(os.Stdout, resp.Body)
	return err
}
