package egress

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/connlimit"
	"retake/internal/secrets/leak"
)

// Limits of a proxy.
const (
	mostConnections = 1024 // all workers together
	// concurrent connections and requests per attempt; package managers open dozens
	mostOfGuest = 64
	mostDenied  = 32               // hosts remembered for an attempt
	mostGuests  = 256              // finished attempts with a list of denied hosts
	headLimit   = 10 * time.Second // for reading a request's head
	headBytes   = 64 << 10         // size of a request's head; providers' keys take a few hundred bytes
	dialLimit   = 10 * time.Second // for a lookup and a connection
	idleLimit   = 15 * time.Minute // a tunnel's idle time; models think for minutes
	reuseLimit  = time.Minute      // idle time between two requests on a connection
)

// Options of a proxy.
type Options struct {
	Hosts  []string         // allowed "name" or "*.name", with an optional ":port"; defaults to 80 and 443
	Doors  []netip.AddrPort // allowed even if they are not public
	Keys   map[string]Key   // keyed by the variable that holds the API key
	Secret []byte           // key for the tokens; must not change while the fleet's workers run
	Log    *zap.Logger
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)                   // default: system resolver
	Dial   func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) // default: net.Dialer
	// for connections to the hosts in Keys; nil means Go's defaults
	TLS *tls.Config
}

// Proxy serves workers. Its methods are safe for concurrent use.
type Proxy struct {
	o       Options
	server  *http.Server
	forward *httputil.ReverseProxy
	onward  *httputil.ReverseProxy // for requests with keys
	keys    *leak.Finder
	limiter *connlimit.Limiter
	serving sync.WaitGroup

	mu     sync.Mutex
	closed bool
	guests map[string]*guest // by attempt
	over   []string          // dismissed attempts, oldest first
}

// guest is the state of an attempt, guarded by Proxy.mu.
type guest struct {
	admitted bool
	open     map[io.Closer]struct{}
	denied   []string
}

// New returns a proxy that serves an attempt only after Admit.
func New(o Options) *Proxy {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, to.String())
		}
	}
	p := &Proxy{
		o: o, guests: map[string]*guest{}, keys: keyFinder(o.Keys),
		limiter: connlimit.New(connlimit.Limits{Total: mostConnections}, nil),
	}
	errorLog := zap.NewStdLog(o.Log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))) // without clients' errors
	transport := &http.Transport{
		DialContext: p.dialAllowed, DisableKeepAlives: true, DisableCompression: true,
		TLSClientConfig: o.TLS, ForceAttemptHTTP2: false,
	}
	p.forward = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.Host = r.In.URL.Host },
		Transport: transport, FlushInterval: -1, ErrorHandler: p.failed, ErrorLog: errorLog,
	}
	p.onward = &httputil.ReverseProxy{
		Rewrite: p.withKey, Transport: &http.Transport{
			DialContext:     p.dialKeyHost,
			TLSClientConfig: o.TLS, DisableCompression: true,
		}, FlushInterval: -1, ModifyResponse: p.maskKeys, ErrorHandler: p.failed,
		ErrorLog: errorLog,
	}
	p.server = &http.Server{
		Handler: p, ReadHeaderTimeout: headLimit, IdleTimeout: reuseLimit, MaxHeaderBytes: headBytes,
		ErrorLog: errorLog, ConnState: p.limiter.State,
	}
	return p
}

// Serve accepts connections from a listener until Close.
func (p *Proxy) Serve(l net.Listener) {
	p.serving.Go(func() {
		if err := p.server.Serve(p.limiter.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
			p.o.Log.Error("egress proxy stopped serving", zap.Error(err))
		}
	})
}

// Close closes all connections and waits for their handlers.
func (p *Proxy) Close() error {
	err := p.server.Close()
	p.mu.Lock()
	p.closed = true
	for _, g := range p.guests {
		g.close()
	}
	p.mu.Unlock()
	p.serving.Wait()
	for _, r := range []*httputil.ReverseProxy{p.forward, p.onward} {
		r.Transport.(*http.Transport).CloseIdleConnections()
	}
	return err
}

// Admit lets an attempt's worker sign in.
func (p *Proxy) Admit(attempt string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.guests[attempt] == nil {
		p.guests[attempt] = &guest{open: map[io.Closer]struct{}{}}
	}
	p.guests[attempt].admitted = true
}

// Dismiss closes an attempt's connections and revokes its token.
func (p *Proxy) Dismiss(attempt string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.guests[attempt]
	if g == nil || !g.admitted {
		return
	}
	g.admitted = false
	g.close()
	if p.over = append(p.over, attempt); len(p.over) > mostGuests {
		if old := p.guests[p.over[0]]; old != nil && !old.admitted {
			delete(p.guests, p.over[0])
		}
		p.over = p.over[1:]
	}
}

func (g *guest) close() {
	for c := range g.open {
		_ = c.Close() // the connection's user gets the error
	}
}

// Denied returns the first mostDenied hosts that the attempt was denied.
func (p *Proxy) Denied(attempt string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g := p.guests[attempt]; g != nil {
		return slices.Clone(g.denied)
	}
	return nil
}

// deny logs a denied host and remembers it, once per attempt.
func (p *Proxy) deny(attempt, host, why string) {
	host = host[:min(len(host), 255)]
	p.mu.Lock()
	g := p.guests[attempt]
	news := g != nil && len(g.denied) < mostDenied && !slices.Contains(g.denied, host)
	if news {
		g.denied = append(g.denied, host)
	}
	p.mu.Unlock()
	if news {
		p.o.Log.Warn("egress denied", zap.String("attempt", attempt), zap.String("host", host),
			zap.String("reason", why))
	}
}

// Token returns the attempt's sign-in token.
func (p *Proxy) Token(attempt string) string {
	mac := hmac.New(sha256.New, p.o.Secret)
	mac.Write([]byte(attempt))
	return hex.EncodeToString(mac.Sum(nil))
}

// knows reports whether the token belongs to a running attempt.
func (p *Proxy) knows(attempt, token string) bool {
	p.mu.Lock()
	g := p.guests[attempt]
	admitted := g != nil && g.admitted
	p.mu.Unlock()
	return subtle.ConstantTimeCompare([]byte(token), []byte(p.Token(attempt))) == 1 && admitted
}

// enter registers a connection, so that Dismiss can close it. It returns false if the attempt has too many connections
// or was dismissed.
func (p *Proxy) enter(attempt string, c io.Closer) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.guests[attempt]
	if p.closed || g == nil || !g.admitted || len(g.open) >= mostOfGuest {
		return nil, false
	}
	g.open[c] = struct{}{}
	p.serving.Add(1)
	return func() {
		defer p.serving.Done()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(g.open, c)
	}, true
}

// ends is an io.Closer that cancels a context.
type ends struct{ end context.CancelFunc }

func (e *ends) Close() error { e.end(); return nil }

// ServeHTTP implements http.Handler for CONNECT, plain forwarding, and requests that need a key.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect && r.URL.Host == "" {
		p.serveKeys(w, r)
		return
	}
	attempt, token, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).
		BasicAuth()
	if !p.knows(attempt, token) {
		w.Header().Set("Proxy-Authenticate", `Basic realm="retake"`)
		w.Header().Set("Connection", "close") // unauthenticated clients must not keep connections
		http.Error(w, "retake: sign in with the credentials in HTTPS_PROXY", http.StatusProxyAuthRequired)
		return
	}
	if r.Method != http.MethodConnect && r.URL.Scheme != "http" {
		http.Error(w, "retake: want CONNECT or an http:// address", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), attemptKey{}, attempt))
	defer cancel()
	leave, ok := p.enter(attempt, &ends{cancel})
	if !ok {
		http.Error(w, "retake: too many connections from this attempt", http.StatusTooManyRequests)
		return
	}
	defer leave()
	if r.Method == http.MethodConnect {
		p.tunnel(ctx, w, r.URL.Host)
		return
	}
	p.forward.ServeHTTP(w, r.WithContext(ctx))
}

// attemptKey is the context key of the attempt that a request belongs to.
type attemptKey struct{}

// tunnel copies data between a worker and a host until one side closes the connection, or both are idle for too long.
func (p *Proxy) tunnel(ctx context.Context, w http.ResponseWriter, host string) {
	if _, _, err := net.SplitHostPort(host); err != nil {
		http.Error(w, "retake: want CONNECT HOST:PORT", http.StatusBadRequest)
		return
	}
	there, err := p.dialAllowed(ctx, "tcp", host)
	if err != nil {
		p.failed(w, nil, err)
		return
	}
	defer there.Close()
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "retake: "+err.Error(), http.StatusInternalServerError)
		return
	}
	defer here.Close()
	stop := context.AfterFunc(ctx, func() { _, _ = here.Close(), there.Close() })
	defer stop()
	if _, err := io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { copyUntil(there, here, buffered) })
	copyUntil(here, there, there)
	both.Wait()
}

// copyUntil copies data in one direction, starting with data already buffered, and also forwards EOF.
func copyUntil(to, from net.Conn, ahead io.Reader) {
	buffer := make([]byte, 16<<10)
	for {
		_ = from.SetReadDeadline(time.Now().Add(idleLimit))
		n, err := ahead.Read(buffer)
		if n > 0 {
			_ = to.SetWriteDeadline(time.Now().Add(idleLimit))
			if _, failed := to.Write(buffer[:n]); failed != nil {
				err = failed
			}
		}
		if err == nil {
			continue
		}
		half, ok := to.(interface{ CloseWrite() error })
		if !errors.Is(err, io.EOF) || !ok || half.CloseWrite() != nil {
			_, _ = to.Close(), from.Close()
		}
		return
	}
}

// failed answers a failed request with 403 for a denied host, and with 502 otherwise.
func (p *Proxy) failed(w http.ResponseWriter, _ *http.Request, err error) {
	if d, ok := errors.AsType[*deniedError](err); ok {
		http.Error(w, "retake: "+d.Error(), http.StatusForbidden)
		return
	}
	http.Error(w, "retake: "+strings.TrimSpace(err.Error()), http.StatusBadGateway)
}
