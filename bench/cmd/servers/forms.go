package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/millrace/millrace/agentproto"
)

// A form is one way to do the work. The first form of a server is the bare one.
type form struct {
	name    string
	targets map[int]float64 // for some numbers of callers, the minimum relative to the rate of the bare form
	open    func(ctx context.Context, up *setup) error
}

// The targets are ratios, since figures of one machine are no targets of another: 5,000 calls a second on a machine where the bare
// form has 8,800, and 11,000 where it has 15,600.
const (
	serveTarget = .57
	toolTarget  = .70
)

// serveForms are the forms of millrace serve. All have the same bare tool server.
func serveForms(c config) []form {
	kept := func(program, folder string) func(context.Context, *setup) error {
		return func(ctx context.Context, up *setup) error { return openServe(ctx, up, program, folder) }
	}
	forms := []form{{name: "bare", open: openBareHost}, {"on disk", map[int]float64{64: serveTarget}, kept(c.millrace, c.disk)}}
	if c.memory != "" {
		forms = append(forms, form{name: "in a file system in memory", open: kept(c.millrace, c.memory)})
	}
	if c.than != "" {
		forms = append(forms, form{name: "on disk, earlier", open: kept(c.than, c.disk)})
	}
	return forms
}

// toolForms are the forms of millrace tool.
func toolForms(c config) []form {
	opened := func(program, folder string) func(context.Context, *setup) error {
		return func(ctx context.Context, up *setup) error { return openTool(ctx, up, program, folder) }
	}
	forms := []form{
		{name: "bare", open: openBareTool},
		{"in memory", map[int]float64{64: toolTarget}, opened(c.millrace, "")},
		{name: "on disk", open: opened(c.millrace, c.disk)},
	}
	if c.than != "" {
		forms = append(forms, form{name: "in memory, earlier", open: opened(c.than, "")}, form{name: "on disk, earlier", open: opened(c.than, c.disk)})
	}
	return forms
}

var (
	bareReady  = regexp.MustCompile(`^listens at (\S+)$`)
	toolReady  = regexp.MustCompile(`^clock +(\S+)$`)
	serveReady = regexp.MustCompile(`calls at (\S+)/calls, callbacks at`)
)

// start starts a process that up stops. It returns what the process has printed about its address.
func (up *setup) start(ctx context.Context, ready *regexp.Regexp, program string, args ...string) (string, error) {
	p, groups, err := start(ctx, ready, program, args...)
	if err != nil {
		return "", err
	}
	up.processes = append(up.processes, p)
	up.end = append(up.end, p.stop)
	return groups[1], nil
}

// bare starts a bare handler, which is this program in another role.
func (up *setup) bare(ctx context.Context, args ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return up.start(ctx, bareReady, self, args...)
}

// folder makes a folder for the state of a process.
func (up *setup) folder(below string) (string, error) {
	dir, err := os.MkdirTemp(below, "millrace-servers-")
	if err == nil {
		up.end = append(up.end, func() error { return os.RemoveAll(dir) })
	}
	return dir, err
}

// measured makes the process that was started last the measured one.
func (up *setup) measured() {
	last := len(up.processes) - 1
	up.processes[0], up.processes[last] = up.processes[last], up.processes[0]
}

func openBareHost(ctx context.Context, up *setup) error {
	tool, err := up.bare(ctx, "-as", "tool")
	if err != nil {
		return err
	}
	api, err := up.bare(ctx, "-as", "host", "-tool", tool)
	if err != nil {
		return err
	}
	up.measured()
	up.callAPI(api, "")
	return nil
}

func openServe(ctx context.Context, up *setup, program, below string) error {
	dir, err := up.folder(below)
	if err != nil {
		return err
	}
	tool, err := up.bare(ctx, "-as", "tool")
	if err != nil {
		return err
	}
	api, err := up.start(ctx, serveReady, program, "serve", "--leash", "--state", dir, "--tool", tool, "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0")
	if err != nil {
		return err
	}
	up.measured()
	token, err := os.ReadFile(filepath.Join(dir, "api.token"))
	if err != nil {
		return err
	}
	up.callAPI(api, strings.TrimSpace(string(token)))
	return nil
}

// callAPI makes calls by the API of millrace serve: one request makes a call, and one waits for its result.
func (up *setup) callAPI(api, token string) {
	client := newClient()
	up.end = append(up.end, func() error { client.CloseIdleConnections(); return nil })
	request := func(ctx context.Context, method, url string, body []byte, status int) ([]byte, error) {
		r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(r)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != status {
			err = fmt.Errorf("%s %s is answered %s: %s", method, url, resp.Status, answer)
		}
		return answer, err
	}
	up.call = func(ctx context.Context, thread, id, text string) (string, error) {
		call, err := json.Marshal(map[string]any{"group_id": thread, "id": id, "operation": "echo", "arguments": echo{text}})
		if err != nil {
			return "", err
		}
		if _, err := request(ctx, http.MethodPost, api+"/calls", call, http.StatusAccepted); err != nil {
			return "", err
		}
		answer, err := request(ctx, http.MethodGet, api+"/calls/"+thread+"/"+id+"?wait=30s", nil, http.StatusOK)
		if err != nil {
			return "", err
		}
		var result bareResult
		err = json.Unmarshal(answer, &result)
		if err == nil && (!result.OK || result.GroupID != thread || result.ID != id) {
			err = fmt.Errorf("the answer is %s", answer)
		}
		return result.Text, err
	}
}

func openBareTool(ctx context.Context, up *setup) error {
	tool, err := up.bare(ctx, "-as", "tool")
	if err != nil {
		return err
	}
	up.callTool(tool)
	return nil
}

func openTool(ctx context.Context, up *setup, program, below string) error {
	args := []string{"tool", "--leash", "--port", "0"}
	if below != "" {
		dir, err := up.folder(below)
		if err != nil {
			return err
		}
		args = append(args, "--state", dir)
	}
	tool, err := up.start(ctx, toolReady, program, append(args, "clock")...)
	if err != nil {
		return err
	}
	up.callTool(tool)
	return nil
}

// callTool makes calls as a runtime does: it posts an invocation, and the tool server posts the result.
func (up *setup) callTool(tool string) {
	client := newClient()
	var mu sync.Mutex
	pending := make(map[agentproto.CallKey]chan string)
	waiting := func(key agentproto.CallKey) chan string {
		mu.Lock()
		defer mu.Unlock()
		return pending[key]
	}
	callbacks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result, err := readResult(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if done := waiting(result.Key()); done != nil {
			done <- result.String()
		}
	}))
	up.end = append(up.end, func() error {
		client.CloseIdleConnections()
		callbacks.CloseClientConnections()
		callbacks.Close()
		return nil
	})
	up.call = func(ctx context.Context, thread, id, text string) (string, error) {
		arguments, err := json.Marshal(echo{text})
		if err != nil {
			return "", err
		}
		key, done := agentproto.CallKey{GroupID: thread, ID: id}, make(chan string, 2)
		mu.Lock()
		pending[key] = done
		mu.Unlock()
		defer func() {
			mu.Lock()
			delete(pending, key)
			mu.Unlock()
		}()
		message, err := agentproto.Encode(&agentproto.Invocation{
			Operation: "echo", Arguments: arguments, ID: id, GroupID: thread, CallbackURL: callbacks.URL + "/callback",
		})
		if err != nil {
			return "", err
		}
		if err := post(client, tool+"/invoke", message, http.StatusOK); err != nil {
			return "", err
		}
		select {
		case got := <-done:
			return got, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
