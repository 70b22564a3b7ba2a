package toolserver

import (
	"context"
	"crypto/sha256"
	"slices"
)

// grantBucket has the digests of a thread, its runtime and what is granted, as a key,
// for each grant. The value is the sessionTag.
const grantBucket = "grants"

// Grant notes that the user has allowed something for the rest of the conversation,
// for example after [Choose] had "for this session" as a choice. It holds in the
// thread of the call and those below it until the thread is closed, and is kept in
// [Options.State]. What is the tool's own name of what is allowed; a tool that
// allows something for one argument only has to put that into it.
//
// It panics if ctx is not one of a tool function.
func Grant(ctx context.Context, what string) error {
	c := callOf(ctx, "Grant")
	return c.server.store.update(func(tx tx) error {
		return tx.put(grantBucket, grantKey(c.key.runtime, c.inv.GroupID, what), sessionTag(c.key.runtime, sessionOf(c.inv)))
	})
}

// Granted reports whether [Grant] was called for the same in the thread of the call
// or in one above it. A grant of another conversation does not count, nor one of
// another runtime.
//
// It panics if ctx is not one of a tool function.
func Granted(ctx context.Context, what string) (granted bool, err error) {
	c := callOf(ctx, "Granted")
	err = c.server.store.view(func(tx tx) error {
		granted = slices.ContainsFunc(append([]string{c.inv.GroupID}, c.inv.ThreadAncestors...), func(thread string) bool {
			return tx.get(grantBucket, grantKey(c.key.runtime, thread, what)) != nil
		})
		return nil
	})
	return granted, err
}

func grantKey(runtime, thread, what string) []byte {
	return append(grantsOf(runtime, thread), digestOf(what)...)
}

// grantsOf returns how the keys of a thread's grants begin. An empty runtime stands
// for all of them.
func grantsOf(runtime, thread string) []byte {
	k := digestOf(thread)
	if runtime != "" {
		k = append(k, digestOf(runtime)...)
	}
	return k
}

func digestOf(text string) []byte {
	d := sha256.Sum256([]byte(text))
	return d[:]
}

// revoke ends the grants of a thread.
func (s *Server) revoke(runtime, thread string) {
	prefix, found := grantsOf(runtime, thread), false
	err := s.store.view(func(tx tx) error {
		tx.each(grantBucket, prefix, func(_, _ []byte) bool { found = true; return false })
		return nil
	})
	if err == nil && found {
		err = s.store.update(func(tx tx) error { return deleteAll(tx, grantBucket, prefix) })
	}
	if err != nil {
		s.log.Error("grants of a closed thread are still in the store", "error", err)
	}
}
