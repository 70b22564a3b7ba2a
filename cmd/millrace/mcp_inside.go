package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// mcpInside serves MCP on standard input and output, with a runtime in this process that ends with it. The
// two communicate over the API: so all features of serve exist, and other clients of the same folder have
// an address to use.
func mcpInside(ctx context.Context, state, owner string, args []string) error {
	f, err := parseServe(append([]string{"--state", state}, args...))
	if err != nil {
		return err
	}
	if *f.leash {
		return misused(f.FlagSet, "standard input is the client's: there is no --leash")
	}
	if *f.kept.state != state {
		return misused(f.FlagSet, "there are two --state folders")
	}
	if f.apiTLS.given() {
		return misused(f.FlagSet, "a runtime in this process is reached without --api-tls-cert")
	}
	if f.users, err = f.openUsers(); err != nil {
		return err
	}
	token, err := apiToken(f.FlagSet, *f.address, *f.tokenFile, state) // which is made here if there is none
	if err != nil {
		return err
	}
	if err := f.fixPort(); err != nil {
		return fmt.Errorf("API: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- f.serve(ctx)
		cancel()
	}()
	err = speakMCP(ctx, apiClient{base: "http://" + *f.address, token: token}, owner)
	cancel()
	failed := <-served
	if errors.Is(failed, journal.ErrInUse) || errors.Is(failed, syscall.EADDRINUSE) {
		fmt.Fprintf(stderr, "millrace mcp: %v\n\nIf that is a runtime of this folder, use it: millrace mcp --api http://%s --state %s\n", failed, *f.address, state)
		return errUsage
	}
	return errors.Join(err, failed)
}

// fixPort listens for the API if its port is 0, which stands for any free port. The address of the API then has the port that
// was chosen, where this process can make its requests.
func (f *serveFlags) fixPort() error {
	at, err := net.ResolveTCPAddr("tcp", *f.address)
	if err != nil || at.Port != 0 {
		return err
	}
	host, _, err := net.SplitHostPort(*f.address)
	if err != nil {
		return err
	}
	if f.apiListener, err = net.Listen("tcp", *f.address); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(f.apiListener.Addr().String())
	*f.address = net.JoinHostPort(host, port)
	return err
}
