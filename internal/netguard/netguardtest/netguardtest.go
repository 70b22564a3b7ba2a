// Package netguardtest provides names that resolve to any address, for tests of
// guarded connections.
package netguardtest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
)

// Resolver returns a resolver that answers the n-th query for an IPv4 address with
// the result of answer, and queries for IPv6 addresses with no address. N counts from
// 1. Several goroutines may call answer.
func Resolver(answer func(n int) []string) *net.Resolver {
	var asked atomic.Int64
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			for {
				query, err := readMessage(theirs)
				if err != nil {
					return
				}
				var ips []string
				if end := endOfQuestion(query); binary.BigEndian.Uint16(query[end-4:]) == 1 { // type A
					ips = answer(int(asked.Add(1)))
				}
				theirs.Write(answerTo(query, ips))
			}
		}()
		return ours, nil
	}}
}

func readMessage(r io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	m := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(r, m)
	return m, err
}

// endOfQuestion returns the end of the question in a DNS message: after a header of
// 12 bytes come the labels of a name, a type and a class.
func endOfQuestion(query []byte) int {
	at := 12
	for query[at] != 0 {
		at += int(query[at]) + 1
	}
	return at + 5
}

// answerTo returns a DNS message that answers a query, preceded by its length.
func answerTo(query []byte, ips []string) []byte {
	m := slices.Clone(query[:endOfQuestion(query)])
	m[2], m[3] = 0x81, 0x80 // a response, without error
	binary.BigEndian.PutUint16(m[6:], uint16(len(ips)))
	clear(m[8:12])
	for _, ip := range ips {
		m = append(m, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the name, A, IN, no time to live
		m = append(m, netip.MustParseAddr(ip).AsSlice()...)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...)
}
