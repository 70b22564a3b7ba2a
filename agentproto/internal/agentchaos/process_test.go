package agentchaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// A process is a runtime or a tool server, seen from the test.
type process struct {
	t      testing.TB
	config config
	read   func(*process, note)

	cmd   *exec.Cmd // nil while it is down
	in    io.Closer
	ended chan struct{} // closed when it has ended and its output was read
	ready chan struct{} // closed when it serves
	said  *tail
	kills int
}

// start starts the process on its stored state. It does not wait until the process
// serves.
func (p *process) start() {
	text, err := json.Marshal(p.config)
	if err != nil {
		p.t.Error(err)
		return
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), configEnv+"="+string(text))
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	p.said = new(tail)
	cmd.Stderr = p.said
	if err := cmd.Start(); err != nil {
		p.t.Error(err)
		return
	}
	p.cmd, p.in, p.ended, p.ready = cmd, in, make(chan struct{}), make(chan struct{})
	go p.listen(out, p.ended, p.ready)
}

func (p *process) listen(out io.Reader, ended, ready chan struct{}) {
	defer close(ended)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var n note
		if json.Unmarshal(lines.Bytes(), &n) != nil {
			continue // cut off in the middle
		}
		if n.What == "ready" {
			close(ready)
			continue
		}
		p.read(p, n)
	}
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	select {
	case <-p.ended:
		p.cmd.Wait()
		p.t.Errorf("%s ended by itself: %s", p.config.Name, p.said)
	default:
		p.cmd.Process.Kill()
		<-p.ended
		p.cmd.Wait()
	}
	p.in.Close()
	p.cmd = nil
	p.kills++
}

// await waits until the process serves.
func (p *process) await() {
	p.t.Helper()
	select {
	case <-p.ready:
	case <-p.ended:
		p.t.Fatalf("%s ended by itself: %s", p.config.Name, p.said)
	case <-p.t.Context().Done():
		p.t.Fatalf("%s does not start: %s", p.config.Name, p.said)
	}
}

// A tail keeps the end of the text written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.data = append(t.data, b...); len(t.data) > 64<<10 {
		t.data = bytes.Clone(t.data[len(t.data)-8<<10:])
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data[max(0, len(t.data)-4<<10):])
}
