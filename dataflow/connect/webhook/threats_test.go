package webhook_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/webhook"
	"github.com/millrace/millrace/internal/netguard"
	"github.com/millrace/millrace/internal/netguard/netguardtest"
)

// Threat 62: when a receiver redirects, neither a request nor a secret goes to the other address.
func TestRedirects(t *testing.T) {
	other := startReceiver(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		r := startReceiver(t)
		r.answer = func(w http.ResponseWriter, req *http.Request, body []byte) bool {
			http.Redirect(w, req, other.URL, status)
			return true
		}
		refused := false
		s := webhook.Sink[int]{URL: r.URL, Refused: func(context.Context, webhook.Refusal[int]) error { refused = true; return nil }}
		if _, err := open(t, s).Write(t.Context(), 1, []int{1}); err == nil || connect.Passes(err) || refused {
			t.Errorf("%d: the error is %v, refused is %t; want an error that stays, for all elements", status, err, refused)
		}
	}
	if n := len(other.posted()); n > 0 {
		t.Errorf("%d requests have followed a redirect", n)
	}
}

// Threat 62: a name that resolves to an address of this machine, its network or a cloud's metadata service is not connected to. A
// public address requires TLS.
func TestAddresses(t *testing.T) {
	r := startReceiver(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(r.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	system := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = system })
	for _, address := range []string{"127.0.0.1", "169.254.169.254", "10.1.2.3", "93.184.215.14"} {
		net.DefaultResolver = netguardtest.Resolver(func(int) []string { return []string{address} })
		s := webhook.Sink[int]{URL: "http://hooks.example.com:" + port}
		if _, err := open(t, s).Write(t.Context(), 1, []int{1}); !errors.Is(err, netguard.ErrBlocked) || connect.Passes(err) {
			t.Errorf("%s: the error is %v, want netguard.ErrBlocked", address, err)
		}
	}
	net.DefaultResolver = netguardtest.Resolver(func(int) []string { return []string{"127.0.0.1"} })
	s := webhook.Sink[int]{URL: "http://hooks.example.com:" + port, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	if _, err := open(t, s).Write(t.Context(), 1, []int{1}); err != nil {
		t.Errorf("a network that is allowed: %v", err)
	}
	equal(t, "effects", r.got(), []int{1})
	// With a proxy, the sink would connect to the proxy instead of the endpoint.
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	if _, err := open(t, webhook.Sink[int]{URL: r.URL}).Write(t.Context(), 2, []int{2}); err != nil {
		t.Errorf("with a proxy in the environment: %v", err)
	}
}

// Threat 62: no secret is in an error or is printed.
func TestSecrets(t *testing.T) {
	const word = "s3cr3tword"
	key := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 24)))
	check := func(what, text string) {
		t.Helper()
		for _, secret := range []string{word, key, strings.TrimPrefix(key, "whsec_"), strings.Repeat("k", 24)} {
			if strings.Contains(text, secret) {
				t.Errorf("%s: %s", what, text)
			}
		}
	}
	r := startReceiver(t)
	r.answer = func(w http.ResponseWriter, req *http.Request, body []byte) bool {
		w.WriteHeader(400)
		fmt.Fprint(w, req.Header) // as some servers do
		return true
	}
	host := strings.TrimPrefix(r.URL, "http://")
	sink := func(url string) webhook.Sink[int] {
		return webhook.Sink[int]{URL: url, Secrets: []string{key}, Header: http.Header{"Authorization": {"Bearer " + word}}, Patience: time.Nanosecond}
	}
	s := sink("http://user:" + word + "@" + host + "/hook/" + word + "?token=" + word)
	w := open(t, s)
	for _, f := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		check(f, fmt.Sprintf(f, s))
		check(f, fmt.Sprintf(f, &s))
		check(f, fmt.Sprintf(f, w))
	}
	_, err := w.Write(t.Context(), 1, []int{1})
	if err == nil {
		t.Fatal("no error")
	}
	check("a refusal", err.Error())
	r.Close()
	if _, err := w.Write(t.Context(), 1, []int{1}); err == nil {
		t.Fatal("no error")
	} else {
		check("no connection", err.Error())
	}
	for _, url := range []string{"http://user:" + word + "@[bad", "ftp://" + word, "%zz" + word, "http://" + host + "/" + word + "\x7f", word} {
		if _, _, err := sink(url).Open(t.Context(), lane); err == nil {
			t.Errorf("%q is an endpoint", url)
		} else {
			check(url, err.Error())
		}
	}
	for _, secret := range []string{"", "whsec_" + word, "whsec_" + base64.StdEncoding.EncodeToString([]byte(word)), "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		s := sink(r.URL)
		s.Secrets = []string{key, secret}
		if _, _, err := s.Open(t.Context(), lane); err == nil || !strings.Contains(err.Error(), "Secrets[1]") {
			t.Errorf("secret %q: %v", secret, err)
		} else {
			check("a secret that cannot be used", err.Error())
		}
	}
}
