//! Orders as they come, on a thread of their own: what must not wait for the trial that runs is done at once.

use super::gate::RemoteGate;
use super::{Replies, TICK, clock};
use ebbtide_engine::Clock;
use ebbtide_lab::backend::talk::{Order, Word};
use ebbtide_model::backend::Control;
use ebbtide_model::units::Instant;
use std::io::{self, BufRead};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Orders from the launcher's end of standard input, read by a thread of their own, so that a stop is heard during a trial.
pub(super) struct OrderReader {
    orders: Mutex<Receiver<io::Result<Order>>>,
    heard: Arc<Heard>,
    control: Arc<Control>,
    patience: Option<Duration>,
}

struct Heard {
    /// When something was heard last, by the engine's clock.
    last: AtomicU64,
    /// Nobody is there any more.
    hung_up: AtomicBool,
}

impl OrderReader {
    /// Listens to `orders` until they end; nothing may be heard for `patience`, where there is any.
    pub(super) fn open(
        orders: impl BufRead + Send + 'static,
        replies: Arc<Replies>,
        control: Arc<Control>,
        gate: Arc<RemoteGate>,
        patience: Option<Duration>,
    ) -> io::Result<OrderReader> {
        let (sender, receiver) = channel();
        let heard =
            Arc::new(Heard { last: AtomicU64::new(Clock::get().now().0), hung_up: AtomicBool::new(false) });
        let listener =
            Listener { replies, control: control.clone(), gate, heard: heard.clone(), to_work: sender };
        // It may wait for ever for a line that does not come; the process ends without it.
        std::thread::Builder::new().name("ebb-orders".to_owned()).spawn(move || listener.listen(orders))?;
        Ok(OrderReader { orders: Mutex::new(receiver), heard, control, patience })
    }

    /// The next order for the backend; nothing when there are no more.
    ///
    /// # Errors
    /// When what comes is no order.
    pub(super) fn next(&self) -> io::Result<Option<Order>> {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match orders.recv_timeout(TICK) {
                Ok(order) => return order.map(Some),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if self.heard.hung_up.load(Ordering::Relaxed) => {
                    return Ok(None);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Whether nothing was heard for longer than it may be.
    pub(super) fn is_silent(&self) -> bool {
        let silent = Clock::get().now() - Instant(self.heard.last.load(Ordering::Relaxed));
        self.patience.is_some_and(|patience| Duration::from_nanos(silent.0) > patience)
    }

    /// Nobody is there any more: what runs is stopped, and no order comes.
    pub(super) fn hang_up(&self) {
        self.heard.hung_up.store(true, Ordering::Relaxed);
        self.control.stop.store(true, Ordering::Relaxed);
    }
}

/// The thread that listens.
struct Listener {
    replies: Arc<Replies>,
    control: Arc<Control>,
    gate: Arc<RemoteGate>,
    heard: Arc<Heard>,
    to_work: Sender<io::Result<Order>>,
}

impl Listener {
    fn listen(self, orders: impl BufRead) {
        for line in orders.lines() {
            let order = line.and_then(|line| Ok(serde_json::from_str(&line)?));
            self.heard.last.store(Clock::get().now().0, Ordering::Relaxed);
            let failed = order.is_err();
            if !self.take(order) || failed {
                break;
            }
        }
        self.heard.hung_up.store(true, Ordering::Relaxed);
        self.control.stop.store(true, Ordering::Relaxed);
    }

    /// Does what an order says, or passes it on; whether to go on.
    fn take(&self, order: io::Result<Order>) -> bool {
        match order {
            Ok(Order::Clock) => {
                let now = Clock::get().now().elapsed();
                self.replies.say(&Word::Clock { now, wall: clock::now() }).is_ok()
            }
            Ok(Order::Begin { at }) => {
                self.gate.begin_at(Instant::START + at);
                true
            }
            Ok(Order::Count(window)) => {
                self.gate.count(window);
                true
            }
            Ok(Order::Stop) => {
                self.control.stop.store(true, Ordering::Relaxed);
                true
            }
            Ok(Order::Alive) => true,
            Ok(Order::Together(..)) => {
                // Here, and not when it is begun: what is said next is said of this one.
                self.gate.close();
                self.control.stop.store(self.heard.hung_up.load(Ordering::Relaxed), Ordering::Relaxed);
                self.to_work.send(order).is_ok()
            }
            order => self.to_work.send(order).is_ok(),
        }
    }
}
