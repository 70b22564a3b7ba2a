//go:build unix

package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/freeport"
)

// A command is a line of a page, without its prompt, and the output that the page shows.
type command struct{ line, prints string }

// commands splits a block of console into commands.
func commands(t *testing.T, text string) (all []command) {
	t.Helper()
	for line := range strings.Lines(text) {
		switch cmd, ok := strings.CutPrefix(line, "$ "); {
		case ok:
			all = append(all, command{line: strings.TrimSuffix(cmd, "\n")})
		case len(all) == 0:
			t.Fatalf("%q is no command", line)
		default:
			all[len(all)-1].prints += line
		}
	}
	return all
}

// A session runs the commands of a page, one after another, in a shell in a folder of its own.
// Programs are built in the repository and run in the folder. Each address of a page is replaced
// by a free one, so that pages can be tested in parallel.
type session struct {
	dir, root string
	addresses map[string]string // the address in use for each address on the page, and the reverse
	ended     chan struct{}     // receives when a program in the background ends
}

func newSession(t *testing.T) *session {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(root, "examples"), filepath.Join(dir, "examples")); err != nil { // for the files that commands read
		t.Fatal(err)
	}
	return &session{dir: dir, root: root, addresses: make(map[string]string), ended: make(chan struct{}, 16)}
}

var address = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// run runs a command and compares its output with the page, where an ellipsis stands for any text.
// A command that ends with & runs in the background until it is killed or the page ends. It must
// print what the page shows before the next command runs.
func (s *session) run(t *testing.T, c command) {
	t.Helper()
	for _, shown := range address.FindAllString(c.line, -1) {
		if s.addresses[shown] == "" {
			free, err := freeport.Address()
			if err != nil {
				t.Fatal(err)
			}
			s.addresses[shown], s.addresses[free] = free, shown
		}
	}
	line := address.ReplaceAllStringFunc(c.line, func(shown string) string { return s.addresses[shown] })
	line = strings.ReplaceAll(line, "go run ", "go -C '"+s.root+"' run -exec='env -C "+s.dir+"' ")
	line, behind := strings.CutSuffix(line, " &")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // mostly to build the program
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out string
	if behind {
		t.Cleanup(cancel)
		out = s.begin(t, cmd, strings.Count(c.prints, "\n"))
	} else {
		defer cancel()
		printed, _ := cmd.CombinedOutput() // a command may be meant to fail; its output shows it
		out = string(printed)
	}
	if strings.HasPrefix(line, "kill ") {
		select {
		case <-s.ended:
		case <-ctx.Done():
			t.Errorf("after %s nothing has ended", c.line)
		}
	}
	out = address.ReplaceAllStringFunc(out, func(used string) string {
		if shown := s.addresses[used]; shown != "" {
			return shown
		}
		return used
	})
	if !matches(out, c.prints) {
		t.Errorf("%s prints\n%s\nand the page says\n%s", c.line, out, c.prints)
	}
}

// begin starts a command and returns its first lines.
func (s *session) begin(t *testing.T, cmd *exec.Cmd, lines int) (printed string) {
	t.Helper()
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(out)
	for range lines {
		line, err := reader.ReadString('\n')
		printed += line
		if err != nil {
			break
		}
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, reader)
		_ = cmd.Wait() // it is killed
		s.ended <- struct{}{}
	}()
	t.Cleanup(func() {
		_ = cmd.Cancel()
		<-over
		if t.Failed() {
			t.Logf("%s: %s", strings.Join(cmd.Args, " "), wrong.String())
		}
	})
	return printed
}

// matches compares lines, where an ellipsis in want stands for any text.
func matches(out, want string) bool {
	out, want = strings.TrimSuffix(out, "\n"), strings.TrimSuffix(want, "\n")
	pattern := regexp.QuoteMeta(want)
	return regexp.MustCompile("^" + strings.ReplaceAll(pattern, "…", ".*") + "$").MatchString(out)
}
