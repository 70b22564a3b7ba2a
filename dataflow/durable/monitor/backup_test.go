package monitor_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/monitor"
)

// A copying is a flow whose Backup leaves a file at the destination and then calls the function.
type copying func(ctx context.Context) error

func (c copying) Backup(ctx context.Context, to journal.Opener) (durable.Copied, error) {
	if err := os.WriteFile(filepath.Join(to.(folder).dir, "some"), nil, 0o600); err != nil {
		return durable.Copied{}, err
	}
	return durable.Copied{}, c(ctx)
}

// A folder stands for a log in a directory.
type folder struct {
	journal.Opener
	dir string
}

func inFolder(dir string) journal.Opener { return folder{dir: dir} }

// post requests a backup and returns the answer.
func post(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/backup", nil))
	return w
}

// names returns the names of the files in a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// TestBackup backs up a running flow and restores the backup. Refused backups leave nothing behind:
// one without room and one of a stopped flow.
func TestBackup(t *testing.T) {
	app, err := durable.Start(t.Context(), orders, durable.Options{
		Log: disklog.Dir(t.TempDir()), Partitions: 2, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := app.Ports.Put(t.Context(), i, i); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	h := monitor.Backup(app, dir, disklog.Dir)
	w := post(t.Context(), h)
	var made monitor.Made
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusCreated || len(made.Partitions) != 2 || made.Folder != filepath.Join(dir, made.Name) {
		t.Fatalf("%d, %s: %v", w.Code, w.Body, err)
	}
	at, err := time.Parse("20060102T150405Z", made.Name)
	if err != nil || time.Since(at) > time.Hour || names(t, dir) != made.Name {
		t.Errorf("the folder has %s: %v", names(t, dir), err)
	}
	there := durable.Options{Log: disklog.Dir(made.Folder), Logger: slog.New(slog.DiscardHandler)}
	if all, err := durable.Check(t.Context(), there); err != nil || len(all) != 2 || all[0].Messages != made.Partitions[0].Messages {
		t.Errorf("%+v: %v", all, err)
	}
	copied, err := durable.Copy(t.Context(), there, disklog.Dir(filepath.Join(t.TempDir(), "restored")))
	if err != nil || copied.Identity.String() == made.Identity {
		t.Errorf("restored: %+v, %v", copied, err)
	}

	other := t.TempDir()
	small := func(string) journal.Opener {
		return journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{Partitions: 2, MaxBytes: 10})}
	}
	if w := post(t.Context(), monitor.Backup(app, other, small)); w.Code != http.StatusInsufficientStorage || names(t, other) != "" {
		t.Errorf("without room: %d, %s; left is %s", w.Code, w.Body, names(t, other))
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w := post(t.Context(), monitor.Backup(app, other, disklog.Dir)); w.Code != http.StatusServiceUnavailable || names(t, other) != "" {
		t.Errorf("of a flow that was stopped: %d, %s; left is %s", w.Code, w.Body, names(t, other))
	}
}

// TestBackupAtOnce requests a second backup during the first and one in the same second, and
// disconnects during one.
func TestBackupAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		goOn := make(chan error)
		h := monitor.Backup(copying(func(ctx context.Context) error {
			select {
			case err := <-goOn:
				return err
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}), dir, inFolder)
		begin := func(ctx context.Context) <-chan *httptest.ResponseRecorder {
			answer := make(chan *httptest.ResponseRecorder, 1)
			go func() { answer <- post(ctx, h) }()
			synctest.Wait()
			return answer
		}
		const first, second = "20000101T000000Z", "20000101T000001Z" // time starts here in a synctest bubble

		answer := begin(t.Context())
		if names(t, dir) != first+".partial" {
			t.Errorf("while a backup is made there is %s", names(t, dir))
		}
		if w := post(t.Context(), h); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "is being made already") {
			t.Errorf("meanwhile: %d, %s", w.Code, w.Body)
		}
		goOn <- nil
		if w := <-answer; w.Code != http.StatusCreated || names(t, dir) != first {
			t.Errorf("%d, %s; there is %s", w.Code, w.Body, names(t, dir))
		}
		if w := post(t.Context(), h); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "of this second already") || names(t, dir) != first {
			t.Errorf("in the same second: %d, %s; there is %s", w.Code, w.Body, names(t, dir))
		}
		time.Sleep(time.Second)

		ctx, hangUp := context.WithCancel(t.Context())
		answer = begin(ctx)
		hangUp()
		if w := <-answer; w.Code != http.StatusServiceUnavailable || names(t, dir) != first {
			t.Errorf("the client has gone: %d, %s; there is %s", w.Code, w.Body, names(t, dir))
		}
		answer = begin(t.Context())
		goOn <- errors.New("on demand")
		if w := <-answer; w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "on demand") || names(t, dir) != first {
			t.Errorf("the copy has failed: %d, %s; there is %s", w.Code, w.Body, names(t, dir))
		}
		answer = begin(t.Context())
		goOn <- nil
		if w := <-answer; w.Code != http.StatusCreated || names(t, dir) != first+" "+second {
			t.Errorf("%d, %s; there is %s", w.Code, w.Body, names(t, dir))
		}
	})
}

// TestBackupOverHTTP runs a backup that takes longer than the server's timeouts for other requests,
// and one whose client disconnects.
func TestBackupOverHTTP(t *testing.T) {
	t.Parallel()
	const wait = 1500 * time.Millisecond
	began, ended := make(chan bool, 1), make(chan error, 1)
	serve := func(takes time.Duration) (ask func(ctx context.Context, method, body string) (int, error), dir string) {
		dir = t.TempDir()
		server := httptest.NewUnstartedServer(monitor.Backup(copying(func(ctx context.Context) (err error) {
			began <- true
			select {
			case <-time.After(takes):
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
			ended <- err
			return err
		}), dir, inFolder))
		server.Config.ReadTimeout, server.Config.WriteTimeout = time.Second, time.Second
		server.Start()
		t.Cleanup(server.Close)
		return func(ctx context.Context, method, body string) (int, error) {
			req, err := http.NewRequestWithContext(ctx, method, server.URL+"/backup", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return 0, err
			}
			return resp.StatusCode, resp.Body.Close()
		}, dir
	}
	ask, dir := serve(wait)
	if status, err := ask(t.Context(), "POST", ""); status != http.StatusCreated || err != nil || <-ended != nil || names(t, dir) == "" {
		t.Errorf("%d, %v; there is %s", status, err, names(t, dir))
	}
	<-began
	if status, err := ask(t.Context(), "POST", "{}"); status != http.StatusBadRequest || err != nil {
		t.Errorf("with a body: %d, %v", status, err)
	}
	if status, err := ask(t.Context(), "GET", ""); status != http.StatusMethodNotAllowed || err != nil {
		t.Errorf("GET: %d, %v", status, err)
	}

	ask, _ = serve(time.Hour)
	ctx, hangUp := context.WithCancel(t.Context())
	go func() {
		<-began
		hangUp()
	}()
	if status, err := ask(ctx, "POST", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", status, err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the client has hung up: %v", err)
	}
}
