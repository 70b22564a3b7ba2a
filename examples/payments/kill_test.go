package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/freeport"
)

// actEnv makes the test binary act as the command, so that the test kills a real process.
const actEnv = "PAYMENTS_ACT"

func TestMain(m *testing.M) {
	if os.Getenv(actEnv) != "" {
		go func() { // ends with the test, even if the test is killed
			io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
		main()
		return
	}
	os.Exit(m.Run())
}

// begin starts the service and, when it listens, returns a function that kills it.
func begin(t *testing.T, dir, address, bank string) (kill func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-listen", address, "-bank", bank)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), actEnv+"=1")
	var said bytes.Buffer
	cmd.Stderr = &said
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if want := "payments at http://" + address + "\n"; err != nil || line != want {
		kill()
		t.Fatalf("it says %q, %v, want %q\n%s", line, err, want, said.String())
	}
	return kill
}

// pay asks for a payment and returns the status and the body of the response.
func pay(ctx context.Context, address, key, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, text), err
}

// A ledger is a bank that answers slowly. It is busy at first for some keys, refuses others, and
// loses some answers to charges that it has made.
type ledger struct {
	mu    sync.Mutex
	asked map[string]int
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	l.mu.Lock()
	l.asked[key]++
	first := l.asked[key] == 1
	l.mu.Unlock()
	select {
	case <-time.After(20 * time.Millisecond):
	case <-r.Context().Done():
	}
	switch {
	case strings.HasPrefix(key, "no "):
		http.Error(w, "not covered", http.StatusPaymentRequired)
	case first && strings.HasPrefix(key, "busy "):
		http.Error(w, "busy", http.StatusServiceUnavailable)
	case first && strings.HasPrefix(key, "lost "):
		panic(http.ErrAbortHandler)
	default:
		fmt.Fprintf(w, "charge of %s", key)
	}
}

// TestKilled kills the service while clients ask for payments and repeat the unanswered requests.
// The bank is asked under one key for each payment, and each payment has one receipt.
func TestKilled(t *testing.T) {
	const payments, kills = 48, 3
	bank := &ledger{asked: make(map[string]int)}
	server := httptest.NewServer(bank)
	defer server.Close()
	dir := t.TempDir()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	kill := begin(t, dir, address, server.URL)
	defer func() { kill() }()
	pause := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-t.Context().Done():
		}
	}
	var mu sync.Mutex
	receipts := make(map[string]string)
	var working sync.WaitGroup
	for i := range payments {
		key := fmt.Sprint([]string{"good", "busy", "good", "lost", "good", "no"}[i%6], " ", i)
		working.Go(func() {
			pause(time.Duration(10*i) * time.Millisecond)
			for t.Context().Err() == nil {
				answer, err := pay(t.Context(), address, key, `{"cents": 250}`)
				if err == nil && !strings.HasPrefix(answer, "503 ") {
					mu.Lock()
					receipts[key] = answer
					mu.Unlock()
					return
				}
				pause(20 * time.Millisecond) // the service is down
			}
		})
	}
	for range kills {
		pause(150 * time.Millisecond)
		kill() // with SIGKILL, in the middle of payments
		kill = begin(t, dir, address, server.URL)
	}
	working.Wait()
	kill()
	kill = begin(t, dir, address, server.URL)
	for key, want := range receipts {
		if got, err := pay(t.Context(), address, key, `{"cents": 250}`); err != nil || got != want {
			t.Errorf("%s is answered %q, %v, want %q", key, got, err, want)
		}
		is, _, _ := strings.Cut(want, " ")
		if paid := is == "200" && strings.Contains(want, "charge of "+key); paid == strings.HasPrefix(key, "no ") || !paid && is != "402" {
			t.Errorf("%s is answered %q", key, want)
		}
	}
	bank.mu.Lock()
	defer bank.mu.Unlock()
	if len(receipts) != payments || len(bank.asked) != payments {
		t.Errorf("there are %d receipts, and the bank was asked for %d charges, want %d", len(receipts), len(bank.asked), payments)
	}
}

// TestMisuse makes invalid requests, and checks that they are refused and have no effect.
func TestMisuse(t *testing.T) {
	bank := &ledger{asked: make(map[string]int)}
	server := httptest.NewServer(bank)
	defer server.Close()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	defer begin(t, t.TempDir(), address, server.URL)()
	for _, test := range []struct{ key, body, want string }{
		{"tea", `{"cents": 250}`, `200 {"cents":250,"number":"charge of tea-1","tries":1}` + "\n"},
		{"tea", `{"cents": 7}`, "422 the key is that of another payment\n"},
		{"tea", `{"cents": 250}`, `200 {"cents":250,"number":"charge of tea-1","tries":1}` + "\n"},
		{"", `{"cents": 250}`, "400 "},
		{"rice", `{"cents": -1}`, "400 "},
		{"rice", `{"cents":`, "400 "},
		{"rice", `{"cents": 1, "note": "` + strings.Repeat("x", 2000) + `"}`, "400 "},
	} {
		if got, err := pay(t.Context(), address, test.key, test.body); err != nil || !strings.HasPrefix(got, test.want) {
			t.Errorf("%q with %.40s is answered %q, %v, want %q", test.key, test.body, got, err, test.want)
		}
	}
	bank.mu.Lock()
	defer bank.mu.Unlock()
	if len(bank.asked) != 1 {
		t.Errorf("the bank was asked for %v", bank.asked)
	}
}
