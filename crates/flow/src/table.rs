//! All flows of a mux, found by their id in constant time.

use crate::flow::Flow;
use crate::id::FlowId;
use alloc::vec::Vec;

#[derive(Debug)]
struct Slot {
    serial: u32,
    flow: Option<Flow>,
}

/// The flows, in slots that are used again.
#[derive(Debug, Default)]
pub(crate) struct FlowTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
    next_serial: u32,
}

impl FlowTable {
    pub(crate) fn insert(&mut self, flow: Flow) -> FlowId {
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        let content = Slot { serial, flow: Some(flow) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = content;
                slot
            }
            None => {
                self.slots.push(content);
                (self.slots.len() - 1) as u32
            }
        };
        FlowId { serial, slot }
    }

    pub(crate) fn get(&self, id: FlowId) -> Option<&Flow> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.flow.as_ref().filter(|_| slot.serial == id.serial)
    }

    pub(crate) fn get_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.flow.as_mut().filter(|_| slot.serial == id.serial)
    }

    pub(crate) fn remove(&mut self, id: FlowId) -> Option<Flow> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.serial != id.serial {
            return None;
        }
        let flow = slot.flow.take()?;
        self.free.push(id.slot);
        Some(flow)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Slots, used or not: the range of positions for [`FlowTable::at`].
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The flow in a slot, if there is one.
    pub(crate) fn at(&self, slot: usize) -> Option<(FlowId, &Flow)> {
        let content = self.slots.get(slot)?;
        let id = FlowId { serial: content.serial, slot: slot as u32 };
        content.flow.as_ref().map(|flow| (id, flow))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FlowId, &Flow)> {
        (0..self.slots()).filter_map(|slot| self.at(slot))
    }
}
