// Package netguardtest has what tests of guarded connections need: names that resolve
// to whatever the test wants.
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

// Resolver returns a resolver that answers the n-th question for an IPv4 address
// with what answer returns, and questions for IPv6 addresses with none. N counts from
// 1; answer may be called by several goroutines.
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

// endOfQuestion returns where the question of a DNS message ends: after a header of
// 12 bytes come the labels of a name, a type and a class.
func endOfQuestion(query []byte) int {
	at := 12
	for query[at] != 0 {
		at += int(query[at]) + 1
	}
	return at + 5
}

// answerTo makes a DNS message that answers a query, with its length before it.
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
