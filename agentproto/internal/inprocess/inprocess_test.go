package inprocess

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestTransport(t *testing.T) {
	stuck := make(chan struct{})
	defer close(stuck)
	client := &http.Client{Transport: &Transport{Handlers: map[string]http.Handler{"http://a.invalid": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panics":
			panic("x")
		case "/hangs":
			<-stuck
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", r.Host+r.RequestURI)
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-Late", "1")
		w.Write(body)
	})}}}
	res, err := client.Post("http://A.invalid/x?y=1", "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if string(body) != "hello" || err != nil || res.StatusCode != http.StatusTeapot || res.Header.Get("X-Seen") != "A.invalid/x?y=1" || res.Header.Get("X-Late") != "" {
		t.Errorf("%d %v %q, %v", res.StatusCode, res.Header, body, err)
	}
	for _, url := range []string{"http://b.invalid/", "https://a.invalid/", "http://a.invalid/panics"} {
		if _, err := client.Get(url); err == nil {
			t.Errorf("%s was answered", url)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.invalid/hangs", nil)
	stop()
	if _, err := client.Do(req); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled request: %v", err)
	}
}
