package durable

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// TestBackupKilled has four senders send to a process while it makes a backup, kills it after more
// records were sent, and restores the backup to a log of another kind. It checks that records
// acknowledged before the backup are there once, and that the flow continues.
func TestBackupKilled(t *testing.T) {
	if dir := os.Getenv("MILLRACE_BACKUP_DIR"); dir != "" {
		runBackedUp(t, dir)
		return
	}
	dir := t.TempDir()
	before := backUpAndKill(t, dir)
	backup := movingOptions(disklog.Dir(filepath.Join(dir, "backup")))
	if _, err := Check(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	restored := movingOptions(natslog.Embedded(filepath.Join(dir, "restored")))
	if _, err := Copy(t.Context(), backup, restored.Log); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{restored, backup} { // a backup is a log like any other
		app := start(t, nil, moving, o)
		seen, later := make(map[string]bool), make(map[string]bool)
		if err := came(t.Context(), app, seen, before); err != nil {
			t.Errorf("%v: %v", o.Log, err)
		}
		for n := range 50 {
			key := fmt.Sprint("later ", n)
			if later[key] = true; app.Ports.in.Put(t.Context(), key, n) != nil {
				t.Errorf("%v: %s was not taken", o.Log, key)
			}
		}
		if err := came(t.Context(), app, seen, later); err != nil {
			t.Errorf("%v: %v", o.Log, err)
		}
		stop(t, app)
		if _, err := Check(t.Context(), o); err != nil {
			t.Error(err)
		}
	}
}

// backUpAndKill runs the process and returns the keys that were acknowledged before the backup was
// requested.
func backUpAndKill(t *testing.T, dir string) map[string]bool {
	t.Helper()
	cmd, in, out := startTest(t, "TestBackupKilled", "MILLRACE_BACKUP_DIR="+dir)
	defer in.Close()
	const first, more = 300, 100
	before, after, said := make(map[string]bool), 0, ""
	asked, made := false, false
	for lines := bufio.NewScanner(out); after < more && lines.Scan(); {
		key, acknowledged := strings.CutPrefix(lines.Text(), "put ")
		switch {
		case acknowledged && made:
			after++
		case acknowledged && !asked:
			if before[key] = true; len(before) == first {
				asked = true
				fmt.Fprintln(in, "backup")
			}
		case acknowledged:
		case lines.Text() == "backed up":
			made = true
		default:
			said += lines.Text() + "\n"
		}
	}
	_ = cmd.Process.Kill()
	rest, _ := io.ReadAll(out)
	_ = cmd.Wait()
	if after < more {
		t.Fatalf("the process has ended: %s%s", said, rest)
	}
	return before
}

// runBackedUp is the process.
func runBackedUp(t *testing.T, dir string) {
	app, err := Start(t.Context(), moving, movingOptions(disklog.Dir(filepath.Join(dir, "state"))))
	if err != nil {
		t.Fatal(err)
	}
	var said sync.Mutex
	say := func(text string) {
		said.Lock()
		defer said.Unlock()
		fmt.Println(text)
	}
	for s := range 4 {
		go func() {
			for n := 0; ; n++ {
				key := fmt.Sprint(s, " ", n)
				if err := app.Ports.in.Put(t.Context(), key, n); err != nil {
					say(err.Error())
					return
				}
				say("put " + key)
			}
		}()
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if _, err := app.Backup(t.Context(), disklog.Dir(filepath.Join(dir, "backup"))); err != nil {
			say(err.Error())
			return
		}
		say("backed up")
	}
}
