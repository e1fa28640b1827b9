package github

import (
	"container/list"
	"net/http"
	"sync"
)

// Bounds of the cache. What does not fit is asked for unconditionally, which costs requests, nothing else.
const (
	cacheEntries = 512
	cacheBytes   = 32 << 20
)

// answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   []byte
	etag   string
	cached bool // GitHub said 304 and this is what it said before
}

// etags remembers answers that have an ETag, least recently used out first.
type etags struct {
	mu    sync.Mutex
	byURL map[string]*list.Element
	order *list.List // of *entry, most recent in front
	bytes int
}

type entry struct {
	url string
	ans answer
}

func newETags() *etags {
	return &etags{byURL: map[string]*list.Element{}, order: list.New()}
}

func (c *etags) get(url string) (answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byURL[url]
	if !ok {
		return answer{}, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*entry).ans, true
}

func (c *etags) put(url string, a answer) {
	if a.etag == "" || len(a.body) > cacheBytes/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.byURL[url]; ok {
		c.drop(old)
	}
	c.byURL[url] = c.order.PushFront(&entry{url, a})
	c.bytes += len(a.body)
	for c.order.Len() > cacheEntries || c.bytes > cacheBytes {
		c.drop(c.order.Back())
	}
}

func (c *etags) drop(e *list.Element) {
	old := c.order.Remove(e).(*entry)
	delete(c.byURL, old.url)
	c.bytes -= len(old.ans.body)
}
