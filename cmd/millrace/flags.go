package main

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
)

// urls is a flag that may be given more than once.
type urls []string

func (u *urls) String() string     { return strings.Join(*u, " ") }
func (u *urls) Set(s string) error { *u = append(*u, s); return nil }

// prefixes is a flag with networks.
type prefixes []netip.Prefix

func (p *prefixes) String() string { return fmt.Sprint([]netip.Prefix(*p)) }

func (p *prefixes) Set(s string) error {
	network, err := netip.ParsePrefix(s)
	*p = append(*p, network)
	return err
}

// signedBy is a flag with secrets, by the URL with which they are shared.
type signedBy map[string][]string

// String returns the number of secrets, but not the secrets.
func (s signedBy) String() string { return fmt.Sprint(len(s)) }

// Set takes URL=FILE. The secrets are in a file because every user of a machine can read
// the flags of a process.
func (s signedBy) Set(text string) error {
	url, name, ok := strings.Cut(text, "=")
	if !ok || url == "" || name == "" {
		return fmt.Errorf("it has to be URL=FILE")
	}
	secrets, err := secretsOf(name)
	s[url] = append(s[url], secrets...)
	return err
}

// secretsOf reads the secrets at a place.
func secretsOf(name string) ([]string, error) {
	text, err := secretAt(name)
	if err != nil {
		return nil, err
	}
	secrets := strings.Fields(text)
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%s has no secret", name)
	}
	for i, s := range secrets {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "whsec_"))
		if err != nil || !strings.HasPrefix(s, "whsec_") || len(raw) < 24 || len(raw) > 64 {
			return nil, fmt.Errorf("%s: secret %d is not whsec_ and the base64 of 24 to 64 bytes", name, i+1)
		}
	}
	return secrets, nil
}

// leashed returns a context that also ends when standard input is closed. So a process
// ends with the one that started it, however that process ends.
func leashed(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}

// A keepFor is a flag for durable.Options.KeepFor.
type keepFor time.Duration

func (k *keepFor) String() string {
	if time.Duration(*k) == durable.Forever {
		return "forever"
	}
	return time.Duration(*k).String()
}

func (k *keepFor) Set(text string) error {
	if text == "forever" {
		*k = keepFor(durable.Forever)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("it is negative")
	}
	*k = keepFor(d)
	return err
}

// witnessFlag adds a flag for durable.Options.Witness.
func witnessFlag(fs *flag.FlagSet) func() durable.Witness {
	dir := fs.String("witness", "", "`folder` on another disk that knows how far the history has come, so that one that was put back as it was earlier is refused; none unless given")
	return func() durable.Witness {
		if *dir == "" {
			return nil
		}
		return durable.WitnessDir(*dir)
	}
}
