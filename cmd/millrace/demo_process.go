package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
)

// processes are the processes that the demo has started.
type processes []*process

// A process is a tool server or a runtime.
type process struct {
	name string
	url  string    // of a tool server, or of a runtime's callback endpoint
	api  apiClient // of a runtime
	cmd  *exec.Cmd
	in   io.Closer // the process ends when this is closed
}

// start starts this program with the given arguments. The caller chooses the pipe from which
// it reads the output.
func (p *processes) start(name string, env []string, pipe func(*exec.Cmd) (io.ReadCloser, error), args ...string) (*process, io.Reader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := pipe(cmd)
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	x := &process{name: name, cmd: cmd, in: in}
	*p = append(*p, x)
	return x, out, nil
}

// stop ends all processes, the last one first, and waits for them.
func (p processes) stop() {
	for i := len(p) - 1; i >= 0; i-- {
		x := p[i]
		x.in.Close()
		late := time.AfterFunc(3*time.Second, func() { x.cmd.Process.Kill() })
		_ = x.cmd.Wait() // it no longer matters how the process ends
		late.Stop()
	}
}

// startTool starts an example server.
func (p *processes) startTool(name string, logs io.Writer, env []string, flags ...string) (*process, error) {
	stdout := func(c *exec.Cmd) (io.ReadCloser, error) {
		c.Stderr = logs
		return c.StdoutPipe()
	}
	args := append(append([]string{"tool", "--leash"}, flags...), name)
	x, out, err := p.start(name, append(env, "RAP_EMBEDDED=1"), stdout, args...)
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var hello struct{ Port int }
	if err := errors.Join(err, json.Unmarshal(line, &hello)); err != nil {
		return nil, fmt.Errorf("the tool server %s did not start: %w", name, err)
	}
	x.url = fmt.Sprintf("http://127.0.0.1:%d", hello.Port)
	return x, nil
}

// startTools starts the tool servers of the calls.
func (p *processes) startTools(logs io.Writer) (tools processes, err error) {
	for _, name := range []string{"clock", "slow", "feed"} {
		x, err := p.startTool(name, logs, nil)
		if err != nil {
			return nil, err
		}
		tools = append(tools, x)
	}
	return tools, nil
}

func (p processes) urls() []string {
	urls := make([]string, len(p))
	for i := range p {
		urls[i] = p[i].url
	}
	return urls
}

// hostNames are the names of the two runtimes, and of their folders.
var hostNames = [2]string{"A", "B"}

// start starts two runtimes, each with a tool server of its own whose sessions move with
// those of the runtime. The tool servers of the calls, except the last, are shared.
func (h *hosts) start(p *processes, shared processes, logs io.Writer) (err error) {
	if h.folder, err = os.MkdirTemp("", "millrace-demo-"); err != nil {
		return err
	}
	script := filepath.Join(h.folder, "script.json")
	if err := writeScript(script, dialogue); err != nil {
		return err
	}
	key := filepath.Join(h.folder, "migration.key")
	for i, name := range hostNames {
		folder := filepath.Join(h.folder, name)
		feed, err := p.startTool("feed", logs, nil, "--state", filepath.Join(folder, "tools"), "--migration-key", key)
		if err != nil {
			return err
		}
		h.feeds[i] = feed
		args := []string{"serve", "--leash", "--state", folder, "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0", "--migration-key", key, "--model", "script:" + script}
		for _, u := range append(shared[:2:2].urls(), feed.url) {
			args = append(args, "--tool", u)
		}
		x, said, err := p.start("host "+name, nil, (*exec.Cmd).StderrPipe, args...)
		if err != nil {
			return err
		}
		h.hosts[i] = x
		h.said[i] = said
	}
	for i, x := range h.hosts {
		if err := x.introduced(bufio.NewReader(h.said[i]), logs); err != nil {
			return err
		}
		if x.api.token, err = findToken("", filepath.Join(h.folder, hostNames[i])); err != nil {
			return err
		}
	}
	return nil
}

// introduction matches the line in which a runtime prints its addresses.
var introduction = regexp.MustCompile(`^millrace serve: calls at (http://\S+)/calls, callbacks at (http://\S+)\s*$`)

// introduced waits until a runtime has printed its addresses. Its other output goes to the
// logs.
func (x *process) introduced(said *bufio.Reader, logs io.Writer) error {
	for {
		line, err := said.ReadString('\n')
		if m := introduction.FindStringSubmatch(line); m != nil {
			x.api.base, x.url = m[1], m[2]
			go io.Copy(logs, said)
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s did not start: %w", x.name, err)
		}
		fmt.Fprint(logs, line)
	}
}

// writeScript writes replies as a file for --model script:FILE.
func writeScript(name string, replies conversation.Script) error {
	out := make([]scriptReply, len(replies))
	for i, r := range replies {
		out[i] = scriptReply{Text: r.Text}
		for _, c := range r.Calls {
			out[i].Calls = append(out[i].Calls, scriptCall{Operation: c.Name, Arguments: []byte(c.Arguments)})
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o600)
}
