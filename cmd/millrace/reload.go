package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
)

// serveAgain serves with flags, and with those that are read when told says so, until ctx ends.
func serveAgain(ctx context.Context, told <-chan os.Signal, args []string, f *serveFlags) (err error) {
	var before *serveFlags // the last ones with which it served, other than f
	for {
		if f.users, err = f.openUsers(); err != nil {
			return err
		}
		running, reload := untilReload(ctx, told, args, f)
		err := f.serve(running)
		next := reload()
		switch {
		case ctx.Err() != nil, f.served && err != nil:
			return err
		case next != nil:
			fmt.Fprintln(stderr, "millrace serve: the configuration has changed: everything is started again")
			if f.served {
				before = f
			}
			f = next
		case err != nil && before != nil: // not everything can be checked without starting it
			fmt.Fprintf(stderr, "millrace serve: everything is started again as it was, because the configuration cannot be used: %v\n", err)
			before.configSum = f.configSum
			f = before
		default:
			return err
		}
	}
}

// untilReload returns a context that ends with ctx, or when this process is signaled to read its flags and their file again and
// they are valid. In the second case reload returns the new flags; otherwise it returns nil. The caller must call reload. If only
// the tokens of users have changed, and not the file of the flags, the tokens are read again and the context does not end; only
// requests with revoked tokens end.
func untilReload(ctx context.Context, told <-chan os.Signal, args []string, now *serveFlags) (running context.Context, reload func() *serveFlags) {
	running, cancel := context.WithCancel(ctx)
	next := make(chan *serveFlags, 1)
	go func() {
		defer close(next)
		for {
			select {
			case <-running.Done():
				return
			case <-told:
			}
			done, err := now.reloadTokens()
			if done {
				continue
			}
			var f *serveFlags
			if err == nil {
				f, err = parseServe(args)
			}
			if err == nil {
				err = f.look()
			}
			if err == nil {
				next <- f
				cancel()
				return
			}
			fmt.Fprintf(stderr, "millrace serve: nothing is changed, because something is wrong: %v\n", err)
		}
	}()
	return running, func() *serveFlags {
		cancel()
		return <-next
	}
}

// reloadTokens reads the tokens of users again, and reports whether nothing else needs to be reloaded.
func (f *serveFlags) reloadTokens() (done bool, err error) {
	changed := false
	if f.users.file != nil {
		changed, err = f.users.file.reload()
	}
	if err != nil || *f.config != "" && !(changed && f.configStays()) {
		return false, err
	}
	if changed {
		fmt.Fprintf(stderr, "millrace serve: the tokens of %s are read again\n", *f.tokens)
	}
	return true, nil
}

// configStays reports whether the file of the flags is unchanged since it was read.
func (f *serveFlags) configStays() bool {
	text, err := os.ReadFile(*f.config)
	return err == nil && sha256.Sum256(text) == f.configSum
}
